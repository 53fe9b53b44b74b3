#include "cli/bench/attention_point.hpp"

#include <fmt/format.h>

#include "cli/bench/statistics.hpp"

namespace baton::cli {
namespace {

constexpr double cublas_flops = 2.0 * cublas_size * cublas_size * cublas_size;

nlohmann::json share_of(double part, double whole) {
  return if_measured(part > 0 && whole > 0 ? part / whole : 0);
}

std::string heads_of(const attention_heads& h) {
  return fmt::format("{}/{} of {}", h.heads, h.kv_heads, h.head_dim);
}

std::string rate_or_dash(double teraflops) {
  return teraflops > 0 ? fmt::format("{:.4g}", teraflops) : "-";
}

}  // namespace

double attention_run::cublas_teraflops() const {
  return cli::teraflops(cublas_flops, cublas_us);
}
double attention_run::cublas_sustained_teraflops() const {
  return cli::teraflops(cublas_flops, cublas_sustained_us);
}

double attention_point::teraflops() const {
  return cli::teraflops(size.flops(), median_of(burst_us));
}
double attention_point::sustained_teraflops() const {
  return cli::teraflops(size.flops(), sustained_us);
}

nlohmann::json to_json(const attention_run& run, const attention_point& p) {
  const attention_size& s = p.size;
  const bool windowed = s.mask == attention_mask::window;
  nlohmann::json point{
      {"schema", "baton.bench.attention/1"},
      {"who", "baton"},
      {"model", s.of.model.empty() ? nlohmann::json() : nlohmann::json(s.of.model)},
      {"layer", s.of.layer.empty() ? nlohmann::json() : nlohmann::json(s.of.layer)},
      {"batch", s.batch},
      {"length", s.length},
      {"heads", s.of.heads},
      {"kv_heads", s.of.kv_heads},
      {"head_dim", s.of.head_dim},
      {"mask", name(s.mask)},
      {"window", windowed ? nlohmann::json(s.of.window) : nlohmann::json()},
      {"format", name(s.format)},
      {"why_not", p.why_not.empty() ? nlohmann::json() : nlohmann::json(p.why_not)},
      {"cublas_8192_tflops", if_measured(run.cublas_teraflops())},
      {"cublas_8192_sustained_tflops", if_measured(run.cublas_sustained_teraflops())},
      {"of_cublas", share_of(p.teraflops(), run.cublas_teraflops())},
      {"of_cublas_sustained", share_of(p.sustained_teraflops(), run.cublas_sustained_teraflops())}};
  point = with_times(std::move(point), run.of, {s.flops(), s.bytes(), p.wrong, p.burst_us, p.sustained_us});
  if (!p.why_not.empty()) point["checked"] = false;
  return point;
}

void print_attention_header(const attention_run& run, std::ostream& out) {
  print_limits(run.of, "softmax(q k^T) v", out);
  if (run.cublas_us > 0)
    out << fmt::format("cuBLAS {} at {}^3 in bf16: {:.0f} TFLOP/s in a burst, {} sustained\n", run.of.cublas,
                       cublas_size, run.cublas_teraflops(), rate_or_dash(run.cublas_sustained_teraflops()));
  else
    out << fmt::format("no cuBLAS beside: {}\n", run.why_no_cublas);
  out << fmt::format("\n{:<20}{:>14}{:>7}{:>8}{:>8}{:>6}{:>12}{:>9}{:>11}{:>11}{:>11}\n", "model", "heads",
                     "batch", "length", "mask", "of", "burst us", "TFLOP/s", "of cuBLAS", "sustained",
                     "of cuBLAS");
}

void print(const attention_run& run, const attention_point& p, std::ostream& out) {
  const attention_size& s = p.size;
  const std::string model = s.of.model.empty() ? "-" : s.of.model + " " + s.of.layer;
  out << fmt::format("{:<20}{:>14}{:>7}{:>8}{:>8}{:>6}", model, heads_of(s.of), s.batch, s.length,
                     name(s.mask), name(s.format));
  if (!p.why_not.empty())
    out << fmt::format("  no kernel: {}\n", p.why_not);
  else if (!p.wrong.empty())
    out << fmt::format("  WRONG: {}\n", p.wrong);
  else
    out << fmt::format("{:>12.1f}{:>9}{:>11}{:>11}{:>11}\n", median_of(p.burst_us),
                       rate_or_dash(p.teraflops()), percent_of(p.teraflops(), run.cublas_teraflops()),
                       rate_or_dash(p.sustained_teraflops()),
                       percent_of(p.sustained_teraflops(), run.cublas_sustained_teraflops()));
}

}  // namespace baton::cli
