#include "cli/bench/gemm_point.hpp"

#include <fmt/format.h>

#include "cli/bench/statistics.hpp"

namespace baton::cli {

double gemm_point::teraflops() const {
  return cli::teraflops(shape.flops(), median_of(burst_us));
}
double gemm_point::sustained_teraflops() const {
  return cli::teraflops(shape.flops(), sustained_us);
}

double gemm_point::bytes() const {
  const double in = value_bytes(format), result = out == "fp32" ? 4 : 2;
  return in * shape.k * (static_cast<double>(shape.m) + shape.n) + result * shape.m * shape.n;
}

double least_us(const gemm_run& run, const gemm_point& p) {
  return least_us(run, p.shape.flops(), p.bytes());
}

nlohmann::json to_json(const gemm_run& run, const gemm_point& p) {
  return with_times({{"schema", "baton.bench.gemm/1"},
                     {"who", p.who},
                     {"m", p.shape.m},
                     {"n", p.shape.n},
                     {"k", p.shape.k},
                     {"b_layout", name(p.shape.b_layout)},
                     {"format", name(p.format)},
                     {"out", p.out}},
                    run, {p.shape.flops(), p.bytes(), p.wrong, p.burst_us, p.sustained_us});
}

void print_columns(std::ostream& out) {
  out << fmt::format("\n{:>21}{:>8}{:>6}{:>6}  {:<9}{:>10}{:>9}{:>11}{:>14}{:>11}{:>11}\n", "m, n, k", "b",
                     "of", "out", "who", "burst us", "TFLOP/s", "of cuBLAS", "of roofline", "sustained",
                     "of cuBLAS");
}

void print(const gemm_run& run, const gemm_point& p, const gemm_point* reference, std::ostream& out) {
  const std::string shape = fmt::format("{}, {}, {}", p.shape.m, p.shape.n, p.shape.k);
  if (!p.wrong.empty()) {
    out << fmt::format("{:>21}{:>8}{:>6}{:>6}  {:<9}WRONG: {}\n", shape, name(p.shape.b_layout),
                       name(p.format), p.out, p.who, p.wrong);
    return;
  }
  const double us = median_of(p.burst_us);
  const bool is_other = reference != nullptr && reference != &p;
  out << fmt::format("{:>21}{:>8}{:>6}{:>6}  {:<9}{:>10.1f} {:>8.4g}{:>11}{:>14}{:>11}{:>11}\n", shape,
                     name(p.shape.b_layout), name(p.format), p.out, p.who, us, p.teraflops(),
                     is_other ? percent_of(p.teraflops(), reference->teraflops()) : "-",
                     percent_of(least_us(run, p), us),
                     p.sustained_us > 0 ? fmt::format("{:.4g}", p.sustained_teraflops()) : "-",
                     is_other ? percent_of(p.sustained_teraflops(), reference->sustained_teraflops()) : "-");
}

}  // namespace baton::cli
