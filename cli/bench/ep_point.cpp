#include "cli/bench/ep_point.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "baton/version.hpp"
#include "cli/bench/statistics.hpp"
#include "cli/view/text.hpp"

namespace baton::cli {
namespace {

double gb_per_s(std::uint64_t bytes, double us) {
  return us > 0 ? static_cast<double>(bytes) / us / 1000 : 0;
}

nlohmann::json timing_json(const ep_timing& t) {
  if (t.empty()) return nullptr;
  return {{"median_us", t.median_us()},
          {"mad_us", t.mad_us()},
          {"p99_us", t.p99_us()},
          {"median_us_of_ranks", t.median_of_ranks()},
          {"samples_us", t.samples_us}};
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
    kernels[name(steps_of(form)[i])] = timing_json(times.steps[i]);
  return {{"calls", kernels},
          {"round_trip", timing_json(times.round)},
          {"round_trip_graph", timing_json(times.replay)}};
}

struct moved_bytes {
  std::uint64_t wire, of_rows, logical;
};

nlohmann::json rate_json(const ep_run& run, const moved_bytes& bytes, const ep_timing& t) {
  nlohmann::json rate{{"wire_bytes", bytes.wire},
                      {"wire_bytes_without_deduplication", bytes.of_rows},
                      {"logical_bytes", bytes.logical}};
  if (t.empty()) return rate;
  const double speed = gb_per_s(bytes.wire, t.median_us());
  rate["wire_gb_per_s"] = speed;
  rate["logical_gb_per_s"] = gb_per_s(bytes.logical, t.median_us());
  rate["fraction_of_push"] = nullptr;
  if (run.push_gb_per_s) rate["fraction_of_push"] = speed / *run.push_gb_per_s;
  return rate;
}

nlohmann::json text_or_null(const std::string& text) {
  return text.empty() ? nlohmann::json() : nlohmann::json(text);
}

const char* layout_name(const ep_config& c) {
  return c.layout == ep_layout::per_expert ? "per_expert" : "per_rank";
}

bool uses_chunks(const ep_config& c) {
  return c.layout == ep_layout::per_rank && transfer_of(c) == ep_transfer::chunks;
}

/// Where nothing is said of the transfer it is in lines, or the layout's only one; of the input, bf16; of ids, int32; of rows,
/// they are by expert.
nlohmann::json axes_json(const ep_run& run, const ep_point& p) {
  nlohmann::json axes = {{"device", run.device},
                         {"ranks", run.ranks},
                         {"layout", layout_name(p.config)},
                         {"tokens", p.config.num_max_tokens_per_rank},
                         {"hidden", p.config.hidden},
                         {"top_k", p.config.top_k},
                         {"experts", p.config.num_experts},
                         {"format", name(p.config.format)},
                         {"num_sms", p.config.num_sms},
                         {"num_threads", p.config.num_threads},
                         {"routing", "uniform"},
                         {"output", "bf16"},
                         {"seed", p.seed}};
  if (uses_chunks(p.config)) axes["transfer"] = "chunks";
  if (p.forms.quantised && facts_of(p.config.format).scale_bytes > 0) axes["input"] = "quantised";
  if (p.forms.wide_ids) axes["ids"] = "int64";
  if (p.config.rows == ep_rows::by_token) axes["rows"] = "by_token";
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
          {"all_to_all_of_dispatch", timing_json(p.nccl_dispatch)},
          {"all_to_all_of_combine", timing_json(p.nccl_combine)}};
}

/// How much of a round's time its floor and its limit are.
nlohmann::json limits_json(const ep_run& run, const ep_point& p) {
  const std::optional<double> limit = limit_us(run, p);
  nlohmann::json j{{"floor", timing_json(run.floor)},
                   {"limit_us", limit ? nlohmann::json(*limit) : nlohmann::json()},
                   {"fraction_of_floor", nullptr},
                   {"fraction_of_limit", nullptr}};
  const double us = p.best_form().replay.median_us();
  if (us > 0 && !run.floor.empty()) j["fraction_of_floor"] = run.floor.median_us() / us;
  if (us > 0 && limit) j["fraction_of_limit"] = *limit / us;
  return j;
}

std::string us(const ep_timing& t) {
  return t.empty() ? "-" : fmt::format("{:.1f}", t.median_us());
}

std::string speed(const ep_run& run, std::uint64_t bytes, const ep_timing& t) {
  if (t.empty() || bytes == 0) return "-";
  const double rate = gb_per_s(bytes, t.median_us());
  if (!run.push_gb_per_s) return fmt::format("{:.1f}", rate);
  return fmt::format("{:.1f} {:3.0f}%", rate, 100 * rate / *run.push_gb_per_s);
}

std::string point_name(const ep_config& c) {
  return fmt::format("{:>6} {:>5} {:>10} {:>4}", c.num_max_tokens_per_rank, name(c.format),
                     uses_chunks(c) ? "by chunks" : layout_name(c),
                     c.num_sms == 0 ? "all" : fmt::format("{}", c.num_sms));
}

constexpr const char* columns_of_row = "{:>28} | {:>8} {:>8} | {:>8} {:>8} {:>8}\n";
constexpr const char* further_line = "{:>28} | {}\n";

}  // namespace

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

std::optional<double> limit_us(const ep_run& run, const ep_point& p) {
  if (run.floor.empty() || !run.push_gb_per_s || !p.moved) return std::nullopt;
  const std::uint64_t bytes = p.moved->most_dispatch_bytes_out() + p.moved->most_combine_bytes_out();
  return run.floor.median_us() + static_cast<double>(bytes) / *run.push_gb_per_s / 1000;
}

nlohmann::json to_json(const ep_run& run, const ep_point& p) {
  const ep_traffic& moved = *p.moved;
  const std::uint64_t received = moved.most_rows_received();
  nlohmann::json point = head_json(run, p);
  point["checked"] = p.is_right();
  point["worst_error"] = p.verified.worst_error;
  point["values_compared"] = p.verified.values;
  point["values_wrong"] = p.verified.wrong;
  point["repeats"] = p.repeats;
  point["rounds_timed_together"] = p.rounds;
  point["l2"] = fmt::format("{} sets of inputs in turn; not flushed", p.input_sets);
  point["split"] = form_json(ep_form::split, p.split);
  point["split"]["dispatch"] = timing_json(p.dispatch);
  point["split"]["combine"] = timing_json(p.combine);
  point["fused"] = p.fused.steps.empty() ? nlohmann::json() : form_json(ep_form::fused, p.fused);
  point["why_not_fused"] = text_or_null(run.why_not_fused);
  point["dispatch_rate"] = rate_json(run,
                                     {moved.most_dispatch_bytes_out(),
                                      moved.most_dispatch_bytes_of_rows_out(), received * moved.row_bytes()},
                                     p.dispatch_time());
  point["combine_rate"] = rate_json(run,
                                    {moved.most_combine_bytes_out(), moved.most_combine_bytes_of_rows_out(),
                                     received * 2 * static_cast<std::uint64_t>(p.config.hidden)},
                                    p.combine_time());
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

void print_header(const ep_run& run, const ep_config& c, const ep_forms& forms, std::ostream& out) {
  const auto line = [&out](const std::string& text) { out << hanging(text, 2) << '\n'; };
  line(fmt::format("{} rank{} on {}, hidden {}, top-{} of {} experts, uniform random routing", run.ranks,
                   run.ranks == 1 ? "" : "s", run.gpu.empty() ? "the CPU" : run.gpu, c.hidden, c.top_k,
                   c.num_experts));
  if (forms.quantised) line("tokens are given in their format, where that has scales");
  if (forms.wide_ids) line("ids are int64");
  if (c.rows == ep_rows::by_token) line("received tokens lie once each, by token");
  if (!run.why_not_cuda.empty()) line("CUDA is not used: " + run.why_not_cuda);
  if (!run.why_not_fused.empty()) line("fused calls: not measured: " + run.why_not_fused);
  if (run.push_gb_per_s)
    out << fmt::format("push bandwidth of the slowest rank, all at once: {:.1f} GB/s\n  ({})\n",
                       *run.push_gb_per_s, run.push_method);
  else
    line("push bandwidth: not measured: " + run.why_no_push);
  if (!run.floor.empty())
    line(
        fmt::format("floor, two kernels that exchange a flag, in a graph: {:.1f} us", run.floor.median_us()));
  if (run.why_no_nccl.empty())
    out << "NCCL " << run.nccl_version << " moves the same tokens in comparison\n";
  else
    line("NCCL: not measured: " + run.why_no_nccl);
  out << "Microseconds a round: median of each rank, then the slowest rank. Fused calls;\n"
         "apart: the four calls. By chunks: layout per_rank, tokens in bulk copies. GB/s:\n"
         "bytes that leave the busiest rank, and their share of the push bandwidth.\n"
         "Limit: the floor, and these bytes at that bandwidth.\n\n";
  out << fmt::format(columns_of_row, "tokens  form     layout  sms", "dispatch", "combine", "round", "in a",
                     "graph's")
      << fmt::format(columns_of_row, "", "", "", "trip", "graph", "p99");
}

void print_row(const ep_run& run, const ep_point& p, std::ostream& out) {
  if (!p.is_right()) {
    out << fmt::format("{} | WRONG: {} of {} values, by up to {:g}\n", point_name(p.config), p.verified.wrong,
                       p.verified.values, p.verified.worst_error);
    return;
  }
  const ep_form_times& best = p.best_form();
  const auto further = [&out](const std::string& text) { out << fmt::format(further_line, "", text); };
  out << fmt::format(columns_of_row, point_name(p.config), us(p.dispatch_time()), us(p.combine_time()),
                     us(best.round), us(best.replay),
                     best.replay.empty() ? "-" : fmt::format("{:.1f}", best.replay.p99_us()));
  further(fmt::format("apart: {} + {}, {} + {}; graph {}", us(p.split.steps[0]), us(p.split.steps[1]),
                      us(p.split.steps[2]), us(p.split.steps[3]), us(p.split.replay)));
  further(fmt::format("GB/s: dispatch {}, combine {}",
                      speed(run, p.moved->most_dispatch_bytes_out(), p.dispatch_time()),
                      speed(run, p.moved->most_combine_bytes_out(), p.combine_time())));
  if (const std::optional<double> limit = limit_us(run, p); limit && !best.replay.empty())
    further(fmt::format("limit {:.1f} us, {:.0f} % of the graph's time", *limit,
                        100 * *limit / best.replay.median_us()));
  // On the CPU ranks take turns, and the last one is waited for.
  if (const slow_rank slow = slowest(p.waits); slow.rank >= 0 && run.device == "cuda")
    further(fmt::format("rank {} is slow: {:.0f} % of all waiting was for it", slow.rank, 100 * slow.share));
  if (!p.nccl_dispatch.empty())
    further(fmt::format("NCCL: dispatch {}, combine {}", us(p.nccl_dispatch), us(p.nccl_combine)));
}

void print_skipped(const ep_point& p, const std::string& reason, std::ostream& out) {
  out << hanging(fmt::format("{} | skipped: {}", point_name(p.config), reason), 4) << '\n';
}

}  // namespace baton::cli
