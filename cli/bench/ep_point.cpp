#include "cli/bench/ep_point.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "baton/version.hpp"
#include "cli/bench/statistics.hpp"

namespace baton::cli {
namespace {

/// Of the sets of inputs.
double mean_of_sets(const ep_point& p, auto figure) {
  double sum = 0;
  for (const ep_traffic& set : p.moved) sum += static_cast<double>(std::invoke(figure, set));
  return p.moved.empty() ? 0 : sum / static_cast<double>(p.moved.size());
}

/// [who waits][for whom], while all forms were timed.
nlohmann::json waits_json(const wait_matrix& m) {
  nlohmann::json ns = nlohmann::json::array(), waits = ns;
  for (int rank = 0; rank < m.num_ranks; ++rank) {
    nlohmann::json own_ns = nlohmann::json::array(), own_waits = own_ns;
    for (int peer = 0; peer < m.num_ranks; ++peer) {
      own_ns.push_back(m.at(rank, peer).ns);
      own_waits.push_back(m.at(rank, peer).waits);
    }
    ns.push_back(own_ns);
    waits.push_back(own_waits);
  }
  const slow_rank slow = slowest(m);
  return {{"ns", ns}, {"waits", waits}, {"slow_rank", slow.rank >= 0 ? nlohmann::json(slow.rank) : nullptr}};
}

nlohmann::json form_json(ep_form form, const ep_form_times& times) {
  nlohmann::json kernels;
  for (std::size_t i = 0; i < times.steps.size(); ++i)
    kernels[name(steps_of(form)[i])] = to_json(times.steps[i]);
  return {
      {"calls", kernels}, {"round_trip", to_json(times.round)}, {"round_trip_graph", to_json(times.replay)}};
}

nlohmann::json rate_json(const ep_run& run, const ep_bytes& bytes, double logical, const ep_timing& t) {
  nlohmann::json rate{{"wire_bytes", bytes.out},
                      {"wire_bytes_in", bytes.in},
                      {"wire_bytes_without_deduplication", bytes.out_of_rows},
                      {"logical_bytes", logical}};
  if (t.empty()) return rate;
  const double speed = gb_per_s(bytes.most(), t.median_us());
  rate["wire_gb_per_s"] = speed;
  rate["logical_gb_per_s"] = gb_per_s(logical, t.median_us());
  rate["fraction_of_push"] = nullptr;
  if (run.push_gb_per_s) rate["fraction_of_push"] = speed / *run.push_gb_per_s;
  return rate;
}

nlohmann::json text_or_null(const std::string& text) {
  return text.empty() ? nlohmann::json() : nlohmann::json(text);
}

/// Where nothing is said of the transfer it is in lines, or the layout's only one; of the input, bf16; of ids, int32; of rows,
/// they are by expert; of replicas, there are none; of a shared output, combine adds none; of combine's format, it is bf16.
nlohmann::json axes_json(const ep_run& run, const ep_point& p) {
  nlohmann::json axes = {{"device", run.device},
                         {"ranks", run.ranks},
                         {"layout", p.layout_name()},
                         {"tokens", p.config.num_max_tokens_per_rank},
                         {"hidden", p.config.hidden},
                         {"top_k", p.config.top_k},
                         {"experts", p.num_experts()},
                         {"format", name(p.config.format)},
                         {"num_sms", p.config.num_sms},
                         {"num_threads", p.config.num_threads},
                         {"routing", name(p.given.routing)},
                         {"output", "bf16"},
                         {"seed", p.given.seed}};
  if (const std::string transfer = transfer_name(p.config, run.ranks);
      !transfer.empty() && transfer != "lines")
    axes["transfer"] = transfer;
  if (p.given.num_replicas > 0) axes["replicas"] = p.given.num_replicas;
  if (p.given.forms.quantised && facts_of(p.config.format).scale_bytes > 0) axes["input"] = "quantised";
  if (p.given.forms.wide_ids) axes["ids"] = "int64";
  if (p.config.rows == ep_rows::by_token) axes["rows"] = "by_token";
  if (p.given.forms.shared_output) axes["shared_output"] = true;
  if (p.config.combine_format != token_format::bf16) axes["combine_format"] = name(p.config.combine_format);
  return axes;
}

nlohmann::json head_json(const ep_run& run, const ep_point& p) {
  return {{"schema", "baton.bench.ep/2"},
          {"case", "ep"},
          {"subject", "baton"},
          {"axes", axes_json(run, p)},
          {"gpu", text_or_null(run.gpu)},
          {"why_not_cuda", text_or_null(run.why_not_cuda)},
          {"driver", run.driver > 0 ? nlohmann::json(run.driver) : nlohmann::json()},
          {"version", version()},
          {"build", build_info()},
          {"date", run.date}};
}

nlohmann::json nccl_json(const ep_run& run, const ep_point& p) {
  if (p.nccl_dispatch.empty()) return nullptr;
  return {{"version", run.nccl_version},
          {"all_to_all_of_dispatch", to_json(p.nccl_dispatch)},
          {"all_to_all_of_combine", to_json(p.nccl_combine)}};
}

/// How much of a round's time its floor and its limit are.
nlohmann::json limits_json(const ep_run& run, const ep_point& p) {
  const std::optional<double> limit = limit_us(run, p);
  nlohmann::json j{{"floor", to_json(run.floor)},
                   {"limit_us", limit ? nlohmann::json(*limit) : nlohmann::json()},
                   {"fraction_of_floor", nullptr},
                   {"fraction_of_limit", nullptr}};
  const double us = p.best_form().replay.median_us();
  if (us > 0 && !run.floor.empty()) j["fraction_of_floor"] = run.floor.median_us() / us;
  if (us > 0 && limit) j["fraction_of_limit"] = *limit / us;
  return j;
}

}  // namespace

nlohmann::json to_json(const ep_timing& t) {
  if (t.empty()) return nullptr;
  return {{"median_us", t.median_us()},
          {"mad_us", t.mad_us()},
          {"p99_us", t.p99_us()},
          {"median_us_of_ranks", t.median_of_ranks()},
          {"samples_us", t.samples_us}};
}

std::vector<double> ep_timing::median_of_ranks() const {
  std::vector<double> medians;
  for (std::size_t r = 0; !empty() && r < samples_us[0].size(); ++r) {
    std::vector<double> own;
    for (const auto& repeat : samples_us) own.push_back(repeat[r]);
    medians.push_back(median_of(std::move(own)));
  }
  return medians;
}

double ep_timing::median_us() const {
  const std::vector<double> medians = median_of_ranks();
  return medians.empty() ? 0 : *std::max_element(medians.begin(), medians.end());
}

double ep_timing::mad_us() const {
  const std::vector<double> medians = median_of_ranks();
  if (medians.empty()) return 0;
  const auto slowest = std::max_element(medians.begin(), medians.end());
  const auto rank = static_cast<std::size_t>(slowest - medians.begin());
  std::vector<double> own;
  for (const auto& repeat : samples_us) own.push_back(repeat[rank]);
  return mad_of(own);
}

double ep_timing::p99_us() const {
  double worst = 0;
  for (std::size_t r = 0; !empty() && r < samples_us[0].size(); ++r) {
    std::vector<double> own;
    for (const auto& repeat : samples_us) own.push_back(repeat[r]);
    std::sort(own.begin(), own.end());
    const std::size_t nth = (99 * own.size() + 99) / 100;
    worst = std::max(worst, own[nth - 1]);
  }
  return worst;
}

const char* ep_point::layout_name() const {
  return config.layout == ep_layout::per_expert ? "per_expert" : "per_rank";
}
const char* transfer_name(const ep_config& config, int num_ranks) {
  if (config.layout != ep_layout::per_rank) return "";
  const ep_transfer transfer = transfer_of(config, num_ranks);
  return transfer == ep_transfer::chunks ? "chunks" : transfer == ep_transfer::flags ? "flags" : "lines";
}

std::vector<double> rows_of_ranks(const ep_point& p) {
  std::vector<double> rows;
  for (int rank = 0; rank < p.moved.at(0).num_ranks(); ++rank)
    rows.push_back(mean_of_sets(p, [rank](const ep_traffic& set) { return set.rows_received(rank); }));
  return rows;
}

double gb_per_s(double bytes, double us) {
  return us > 0 ? bytes / us / 1000 : 0;
}

ep_bytes dispatch_bytes(const ep_point& p) {
  return {mean_of_sets(p, &ep_traffic::most_dispatch_bytes_out),
          mean_of_sets(p, &ep_traffic::most_dispatch_bytes_in),
          mean_of_sets(p, &ep_traffic::most_dispatch_bytes_of_rows_out)};
}
ep_bytes combine_bytes(const ep_point& p) {
  return {mean_of_sets(p, &ep_traffic::most_combine_bytes_out),
          mean_of_sets(p, &ep_traffic::most_combine_bytes_in),
          mean_of_sets(p, &ep_traffic::most_combine_bytes_of_rows_out)};
}

std::optional<double> limit_us(const ep_run& run, const ep_point& p) {
  if (run.floor.empty() || !run.push_gb_per_s || p.moved.empty()) return std::nullopt;
  const double bytes = dispatch_bytes(p).most() + combine_bytes(p).most();
  return run.floor.median_us() + bytes / *run.push_gb_per_s / 1000;
}

nlohmann::json to_json(const ep_run& run, const ep_point& p) {
  const double received = mean_of_sets(p, &ep_traffic::most_rows_received);
  nlohmann::json point = head_json(run, p);
  point["checked"] = p.is_right();
  point["worst_error"] = p.verified.worst_error;
  point["values_compared"] = p.verified.values;
  point["values_wrong"] = p.verified.wrong;
  point["repeats"] = p.repeats;
  point["rounds_timed_together"] = p.rounds;
  point["l2"] = fmt::format("{} sets of inputs in turn; not flushed", p.given.num_sets);
  point["split"] = form_json(ep_form::split, p.split);
  point["split"]["dispatch"] = to_json(p.dispatch);
  point["split"]["combine"] = to_json(p.combine);
  point["fused"] = p.fused.steps.empty() ? nlohmann::json() : form_json(ep_form::fused, p.fused);
  point["why_not_fused"] = text_or_null(run.why_not_fused);
  point["rows_of_ranks"] = rows_of_ranks(p);
  point["dispatch_rate"] = rate_json(
      run, dispatch_bytes(p), received * static_cast<double>(p.moved[0].row_bytes()), p.dispatch_time());
  point["combine_rate"] = rate_json(run, combine_bytes(p), received * 2 * p.config.hidden, p.combine_time());
  point["push_gb_per_s"] = run.push_gb_per_s ? nlohmann::json(*run.push_gb_per_s) : nlohmann::json();
  point["push_method"] = text_or_null(run.push_method);
  point["why_no_push"] = text_or_null(run.why_no_push);
  point["limits"] = limits_json(run, p);
  point["nccl"] = nccl_json(run, p);
  point["why_no_nccl"] = text_or_null(run.why_no_nccl);
  point["waits"] = waits_json(p.waits);
  return point;
}

nlohmann::json skipped_json(const ep_run& run, const ep_point& p, const std::string& reason) {
  nlohmann::json point = head_json(run, p);
  point["skipped"] = reason;
  return point;
}

}  // namespace baton::cli
