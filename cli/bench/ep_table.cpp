#include "cli/bench/ep_table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/view/text.hpp"

namespace baton::cli {
namespace {

constexpr const char* columns_of_row = "{:>27} | {:>7} {:>7} | {:>7} {:>7} {:>7} {:>7}\n";
constexpr const char* further_line = "{:>27} | {}\n";

std::string us_text(double us) {
  return us < 10'000 ? fmt::format("{:.1f}", us) : fmt::format("{:.0f}", us);
}
std::string us(const ep_timing& t) {
  return t.empty() ? "-" : us_text(t.median_us());
}
std::string p99(const ep_timing& t) {
  return t.empty() ? "-" : us_text(t.p99_us());
}

std::string speed(const ep_run& run, double bytes, const ep_timing& t) {
  if (t.empty() || bytes <= 0) return "-";
  const double rate = gb_per_s(bytes, t.median_us());
  if (!run.push_gb_per_s) return fmt::format("{:.1f}", rate);
  return fmt::format("{:.1f} {:3.0f}%", rate, 100 * rate / *run.push_gb_per_s);
}

/// "12.0 KiB (20.1 KiB)"
std::string both(const ep_bytes& bytes) {
  const auto text = [](double b) { return bytes_text(static_cast<unsigned long long>(b)); };
  return bytes.out == bytes.out_of_rows ? text(bytes.out)
                                        : fmt::format("{} ({})", text(bytes.out), text(bytes.out_of_rows));
}

/// How unevenly the work of experts lies on ranks.
double busiest_to_mean(const ep_point& p) {
  const std::vector<double> rows = rows_of_ranks(p);
  double sum = 0;
  for (const double of_rank : rows) sum += of_rank;
  return sum > 0 ? *std::max_element(rows.begin(), rows.end()) * static_cast<double>(rows.size()) / sum : 0;
}

std::string point_name(const ep_run& run, const ep_point& p) {
  const ep_config& c = p.config;
  const std::string transfer = transfer_name(p.config, run.ranks);
  const bool is_named = !transfer.empty() && transfer != "lines";
  return fmt::format("{:>5} {:>5} {:>10} {:>4}", c.num_max_tokens_per_rank, name(c.format),
                     is_named ? "by " + transfer : p.layout_name(),
                     c.num_sms == 0 ? "all" : fmt::format("{}", c.num_sms));
}

}  // namespace

void print_header(const ep_run& run, const ep_config& c, const ep_forms& forms, std::ostream& out) {
  const auto line = [&out](const std::string& text) { out << hanging(text, 2) << '\n'; };
  line(fmt::format("{} rank{} on {}", run.ranks, run.ranks == 1 ? "" : "s",
                   run.gpu.empty() ? "the CPU" : run.gpu));
  if (forms.quantised) line("tokens are given in their format, where that has scales");
  if (forms.wide_ids) line("ids are int64");
  if (forms.shared_output) line("combine adds what shared experts made");
  if (c.combine_format != token_format::bf16)
    line(fmt::format("sums of layout per_rank travel back in {}", name(c.combine_format)));
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
  out << "Microseconds a round: median of each rank, then the slowest rank; beside it the\n"
         "99th percentile. Eager: no graph. Fused calls; apart: the four calls. By chunks:\n"
         "layout per_rank, tokens in bulk copies; by flags: without lines. Sent: bytes\n"
         "that leave the busiest rank; in brackets with a message for each expert. GB/s:\n"
         "what the busiest rank sends or gets, and its share of the push bandwidth. Limit:\n"
         "the floor, and these bytes at that bandwidth.\n";
}

void print_sizes(const ep_point& p, std::ostream& out) {
  std::string replicas;
  if (p.given.num_replicas > 0) replicas = fmt::format(" and {} replicas", p.given.num_replicas);
  out << '\n'
      << hanging(fmt::format("hidden {}, top-{} of {} experts{}, {} routing", p.config.hidden, p.config.top_k,
                             p.num_experts(), replicas, name(p.given.routing)),
                 2)
      << '\n'
      << fmt::format(columns_of_row, "tokens  form     layout  sms", "dis-", "com-", "eager", "p99", "graph",
                     "p99")
      << fmt::format(columns_of_row, "", "patch", "bine", "", "", "", "");
}

void print_row(const ep_run& run, const ep_point& p, std::ostream& out) {
  if (!p.is_right()) {
    out << fmt::format("{} | WRONG: {} of {} values, by up to {:g}\n", point_name(run, p), p.verified.wrong,
                       p.verified.values, p.verified.worst_error);
    return;
  }
  const ep_form_times& best = p.best_form();
  const auto further = [&out](const std::string& text) { out << fmt::format(further_line, "", text); };
  out << fmt::format(columns_of_row, point_name(run, p), us(p.dispatch_time()), us(p.combine_time()),
                     us(best.round), p99(best.round), us(best.replay), p99(best.replay));
  further(fmt::format("apart: {} + {}, {} + {}; graph {}", us(p.split.steps[0]), us(p.split.steps[1]),
                      us(p.split.steps[2]), us(p.split.steps[3]), us(p.split.replay)));
  const ep_bytes dispatched = dispatch_bytes(p), combined = combine_bytes(p);
  further(fmt::format("sent: {}, {}", both(dispatched), both(combined)));
  further(fmt::format("GB/s: dispatch {}, combine {}", speed(run, dispatched.most(), p.dispatch_time()),
                      speed(run, combined.most(), p.combine_time())));
  if (p.given.routing != ep_routing::uniform || p.given.num_replicas > 0)
    further(fmt::format("rows: the busiest rank has {:.2f} times the mean", busiest_to_mean(p)));
  if (const std::optional<double> limit = limit_us(run, p); limit && !best.replay.empty())
    further(fmt::format("limit {:.1f} us, {:.0f} % of the graph's time", *limit,
                        100 * *limit / best.replay.median_us()));
  // On the CPU ranks take turns, and the last one is waited for.
  if (const slow_rank slow = slowest(p.waits); slow.rank >= 0 && run.device == "cuda")
    further(fmt::format("rank {} is slow: {:.0f} % of all waiting was for it", slow.rank, 100 * slow.share));
  if (!p.nccl_dispatch.empty())
    further(fmt::format("NCCL: dispatch {}, combine {}", us(p.nccl_dispatch), us(p.nccl_combine)));
}

void print_skipped(const ep_run& run, const ep_point& p, const std::string& reason, std::ostream& out) {
  out << hanging(fmt::format("{} | skipped: {}", point_name(run, p), reason), 4) << '\n';
}

}  // namespace baton::cli
