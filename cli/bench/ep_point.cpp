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
          {"median_us_of_ranks", t.median_of_ranks()},
          {"samples_us", t.samples_us}};
}

nlohmann::json rate_json(const ep_run& run, std::uint64_t wire, std::uint64_t logical, const ep_timing& t) {
  nlohmann::json rate{{"wire_bytes", wire}, {"logical_bytes", logical}};
  if (t.empty()) return rate;
  const double speed = gb_per_s(wire, t.median_us());
  rate["wire_gb_per_s"] = speed;
  rate["logical_gb_per_s"] = gb_per_s(logical, t.median_us());
  rate["fraction_of_push"] = nullptr;
  if (run.push_gb_per_s) rate["fraction_of_push"] = speed / *run.push_gb_per_s;
  return rate;
}

nlohmann::json text_or_null(const std::string& text) {
  return text.empty() ? nlohmann::json() : nlohmann::json(text);
}

nlohmann::json axes_json(const ep_run& run, const ep_point& p) {
  return {{"device", run.device},
          {"ranks", run.ranks},
          {"tokens", p.config.num_max_tokens_per_rank},
          {"hidden", p.config.hidden},
          {"top_k", p.config.top_k},
          {"experts", p.config.num_experts},
          {"format", p.config.format == token_format::bf16 ? "bf16" : "fp8"},
          {"num_sms", p.config.num_sms},
          {"num_threads", p.config.num_threads},
          {"routing", "uniform"},
          {"seed", p.seed}};
}

nlohmann::json nccl_json(const ep_run& run, const ep_point& p) {
  if (p.nccl_dispatch.empty()) return nullptr;
  return {{"version", run.nccl_version},
          {"all_to_all_of_dispatch", timing_json(p.nccl_dispatch)},
          {"all_to_all_of_combine", timing_json(p.nccl_combine)}};
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

constexpr const char* columns_of_row = "{:>6} {:>4} {:>4} | {:>9} {:>9} {:>9} {:>9} | {:>9} {:>9}\n";

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

nlohmann::json to_json(const ep_run& run, const ep_point& p) {
  const std::uint64_t received = p.moved.most_rows_received();
  nlohmann::json kernels;
  const char* names[] = {"dispatch_async", "dispatch_wait", "combine_async", "combine_wait"};
  for (std::size_t i = 0; i < 4; ++i) kernels[names[i]] = timing_json(p.steps[i]);
  nlohmann::json point{{"schema", "baton.bench.ep/1"},
                       {"case", "ep"},
                       {"subject", "baton"},
                       {"axes", axes_json(run, p)},
                       {"checked", p.is_right()},
                       {"worst_error", p.verified.worst_error},
                       {"values_compared", p.verified.values},
                       {"values_wrong", p.verified.wrong},
                       {"repeats", p.repeats},
                       {"l2", fmt::format("{} sets of inputs in turn; not flushed", p.input_sets)},
                       {"kernels", kernels},
                       {"dispatch", timing_json(p.dispatch)},
                       {"combine", timing_json(p.combine)},
                       {"round_trip", timing_json(p.round)},
                       {"round_trip_graph", timing_json(p.replay)}};
  point["dispatch_rate"] =
      rate_json(run, p.dispatch_wire_bytes(), received * p.moved.dispatch_row_bytes, p.dispatch);
  point["combine_rate"] =
      rate_json(run, p.combine_wire_bytes(), received * p.moved.combine_row_bytes, p.combine);
  point["push_gb_per_s"] = run.push_gb_per_s ? nlohmann::json(*run.push_gb_per_s) : nlohmann::json();
  point["push_method"] = text_or_null(run.push_method);
  point["why_no_push"] = text_or_null(run.why_no_push);
  point["nccl"] = nccl_json(run, p);
  point["why_no_nccl"] = text_or_null(run.why_no_nccl);
  point["gpu"] = text_or_null(run.gpu);
  point["why_not_cuda"] = text_or_null(run.why_not_cuda);
  point["driver"] = run.driver > 0 ? nlohmann::json(run.driver) : nlohmann::json();
  point["version"] = version();
  point["build"] = build_info();
  point["date"] = run.date;
  return point;
}

void print_header(const ep_run& run, const ep_config& c, std::ostream& out) {
  const auto line = [&out](const std::string& text) { out << hanging(text, 2) << '\n'; };
  line(fmt::format("{} rank{} on {}, hidden {}, top-{} of {} experts, uniform random routing", run.ranks,
                   run.ranks == 1 ? "" : "s", run.gpu.empty() ? "the CPU" : run.gpu, c.hidden, c.top_k,
                   c.num_experts));
  if (!run.why_not_cuda.empty()) line("CUDA is not used: " + run.why_not_cuda);
  if (run.push_gb_per_s)
    out << fmt::format("push bandwidth of the slowest rank, all at once: {:.1f} GB/s\n  ({})\n",
                       *run.push_gb_per_s, run.push_method);
  else
    line("push bandwidth: not measured: " + run.why_no_push);
  if (run.why_no_nccl.empty())
    out << "NCCL " << run.nccl_version << " moves the same bytes in comparison\n";
  else
    line("NCCL: not measured: " + run.why_no_nccl);
  out << "Microseconds: median of each rank, then the slowest rank.\n"
         "GB/s: bytes that leave the busiest rank, and their share of the push bandwidth.\n\n";
  out << fmt::format(columns_of_row, "tokens", "form", "sms", "dispatch", "", "combine", "", "round", "in a")
      << fmt::format(columns_of_row, "", "", "", "async", "wait", "async", "wait", "trip", "graph");
}

void print_row(const ep_run& run, const ep_point& p, std::ostream& out) {
  const std::string sms = p.config.num_sms == 0 ? "all" : fmt::format("{}", p.config.num_sms);
  const char* form = p.config.format == token_format::bf16 ? "bf16" : "fp8";
  if (!p.is_right()) {
    out << fmt::format("{:>6} {:>4} {:>4} | WRONG: {} of {} combined values, by up to {:g}\n",
                       p.config.num_max_tokens_per_rank, form, sms, p.verified.wrong, p.verified.values,
                       p.verified.worst_error);
    return;
  }
  out << fmt::format(columns_of_row, p.config.num_max_tokens_per_rank, form, sms, us(p.steps[0]),
                     us(p.steps[1]), us(p.steps[2]), us(p.steps[3]), us(p.round), us(p.replay))
      << fmt::format("{:>16} | GB/s: dispatch {}, combine {}\n", "",
                     speed(run, p.dispatch_wire_bytes(), p.dispatch),
                     speed(run, p.combine_wire_bytes(), p.combine));
  if (!p.nccl_dispatch.empty())
    out << fmt::format("{:>16} | NCCL: dispatch {}, combine {}\n", "", us(p.nccl_dispatch),
                       us(p.nccl_combine));
}

}  // namespace baton::cli
