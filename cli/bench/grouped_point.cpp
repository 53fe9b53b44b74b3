#include "cli/bench/grouped_point.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "cli/bench/statistics.hpp"

namespace baton::cli {
namespace {

double gigabytes_per_s(double bytes, double us) {
  return us > 0 ? bytes / us / 1e3 : 0;
}

nlohmann::json if_of_a_model(const std::string& name) {
  return name.empty() ? nlohmann::json() : nlohmann::json(name);
}

}  // namespace

std::int64_t grouped_point::rows() const {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

int grouped_point::groups_with_rows() const {
  return static_cast<int>(
      std::count_if(counts.begin(), counts.end(), [](std::int32_t count) { return count > 0; }));
}

nlohmann::json to_json(const gemm_run& run, const grouped_point& p) {
  return with_times(
      {{"schema", "baton.bench.grouped_gemm/1"},
       {"who", "baton"},
       {"model", if_of_a_model(p.shape.model)},
       {"product", if_of_a_model(p.shape.product)},
       {"format", name(p.format)},
       {"groups", p.shape.groups},
       {"n", p.shape.n},
       {"k", p.shape.k},
       {"rows_per_group", p.rows_per_group},
       {"routing", name(p.routing)},
       {"seed", p.seed},
       {"counts", p.counts},
       {"rows", p.rows()},
       {"groups_with_rows", p.groups_with_rows()},
       {"weight_bytes", p.weight_bytes()},
       {"weights_gb_per_s", if_measured(gigabytes_per_s(p.weight_bytes(), median_of(p.burst_us)))}},
      run, {p.flops(), p.bytes(), p.wrong, p.burst_us, p.sustained_us});
}

void print_heading(const grouped_shape& s, operand_format format, std::ostream& out) {
  const std::string of_model = s.model.empty() ? "" : fmt::format("{} {}: ", s.model, s.product);
  out << fmt::format("\n{}{} groups, n {}, k {}, {}\n", of_model, s.groups, s.n, s.k, name(format));
  out << fmt::format("{:>9}{:>9}{:>9}{:>11}{:>8}{:>9}{:>14}{:>13}{:>14}{:>9}\n", "rows each", "routing",
                     "largest", "burst us", "MAD", "TFLOP/s", "weights GB/s", "of roofline", "sustained us",
                     "TFLOP/s");
}

void print(const gemm_run& run, const grouped_point& p, std::ostream& out) {
  const std::string point =
      fmt::format("{:>9}{:>9}{:>9}", p.rows_per_group, name(p.routing),
                  p.counts.empty() ? 0 : *std::max_element(p.counts.begin(), p.counts.end()));
  if (!p.wrong.empty()) {
    out << fmt::format("{}  WRONG: {}\n", point, p.wrong);
    return;
  }
  const double us = median_of(p.burst_us);
  const bool sustained = p.sustained_us > 0;
  out << fmt::format("{}{:>11.1f}{:>8.1f} {:>8.4g}{:>14.4g}{:>13}{:>14}{:>9}\n", point, us,
                     mad_of(p.burst_us), teraflops(p.flops(), us), gigabytes_per_s(p.weight_bytes(), us),
                     percent_of(least_us(run, p.flops(), p.bytes()), us),
                     sustained ? fmt::format("{:.1f}", p.sustained_us) : "-",
                     sustained ? fmt::format("{:.4g}", teraflops(p.flops(), p.sustained_us)) : "-");
}

}  // namespace baton::cli
