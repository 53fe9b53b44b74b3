#include "cli/bench/gemm_point.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "baton/version.hpp"
#include "cli/bench/statistics.hpp"

namespace baton::cli {
namespace {

double in_teraflops(const gemm_shape& shape, double us) {
  return us > 0 ? shape.flops() / us / 1e6 : 0;
}

nlohmann::json if_measured(double value) {
  return value > 0 ? nlohmann::json(value) : nlohmann::json();
}

std::string percent_of(double part, double whole) {
  return part > 0 && whole > 0 ? fmt::format("{:.1f} %", 100 * part / whole) : "-";
}

}  // namespace

double gemm_point::teraflops() const {
  return in_teraflops(shape, median_of(burst_us));
}
double gemm_point::sustained_teraflops() const {
  return in_teraflops(shape, sustained_us);
}

double least_us(const gemm_run& run, const gemm_point& p) {
  if (run.tensor_flops_per_us <= 0 || run.copied_bytes_per_us <= 0) return 0;
  return std::max(p.shape.flops() / run.tensor_flops_per_us,
                  p.shape.bytes(p.out_bytes()) / run.copied_bytes_per_us);
}

nlohmann::json to_json(const gemm_run& run, const gemm_point& p) {
  const double median = median_of(p.burst_us);
  return {{"schema", "baton.bench.gemm/1"},
          {"who", p.who},
          {"m", p.shape.m},
          {"n", p.shape.n},
          {"k", p.shape.k},
          {"out", p.out},
          {"checked", p.wrong.empty()},
          {"wrong", p.wrong.empty() ? nlohmann::json() : nlohmann::json(p.wrong)},
          {"flops", p.shape.flops()},
          {"bytes", p.shape.bytes(p.out_bytes())},
          {"burst_median_us", if_measured(median)},
          {"burst_mad_us", p.burst_us.empty() ? nlohmann::json() : nlohmann::json(mad_of(p.burst_us))},
          {"burst_tflops", if_measured(p.teraflops())},
          {"burst_samples_us", p.burst_us},
          {"sustained_us", if_measured(p.sustained_us)},
          {"sustained_tflops", if_measured(p.sustained_teraflops())},
          {"least_us", if_measured(least_us(run, p))},
          {"tensor_tflops", if_measured(run.tensor_flops_per_us / 1e6)},
          {"sustained_tensor_tflops", if_measured(run.sustained_tensor_flops_per_us / 1e6)},
          {"copied_gb_per_s", if_measured(run.copied_bytes_per_us / 1e3)},
          {"cublas", run.cublas.empty() ? nlohmann::json() : nlohmann::json(run.cublas)},
          {"device", run.device},
          {"gpu", run.gpu.empty() ? nlohmann::json() : nlohmann::json(run.gpu)},
          {"driver", run.driver == 0 ? nlohmann::json() : nlohmann::json(run.driver)},
          {"date", run.date},
          {"version", version()},
          {"build", build_info()}};
}

void print_header(const gemm_run& run, std::ostream& out) {
  out << fmt::format("C = A * B^T, bf16 operands, on {}\n", run.gpu.empty() ? "the CPU" : run.gpu);
  if (!run.why_no_cublas.empty()) out << fmt::format("no cuBLAS beside: {}\n", run.why_no_cublas);
  if (run.tensor_flops_per_us > 0)
    out << fmt::format("tensor cores alone {:.0f} TFLOP/s in a burst, {} sustained; a copy {:.0f} GB/s\n",
                       run.tensor_flops_per_us / 1e6,
                       run.sustained_tensor_flops_per_us > 0
                           ? fmt::format("{:.0f}", run.sustained_tensor_flops_per_us / 1e6)
                           : "-",
                       run.copied_bytes_per_us / 1e3);
  out << fmt::format("\n{:>21}{:>6}  {:<8}{:>10}{:>9}{:>11}{:>14}{:>11}{:>11}\n", "m, n, k", "out", "who",
                     "burst us", "TFLOP/s", "of cuBLAS", "of roofline", "sustained", "of cuBLAS");
}

void print(const gemm_run& run, const gemm_point& p, const gemm_point* reference, std::ostream& out) {
  const std::string shape = fmt::format("{}, {}, {}", p.shape.m, p.shape.n, p.shape.k);
  if (!p.wrong.empty()) {
    out << fmt::format("{:>21}{:>6}  {:<8}WRONG: {}\n", shape, p.out, p.who, p.wrong);
    return;
  }
  const double us = median_of(p.burst_us);
  const bool is_other = reference != nullptr && reference != &p;
  out << fmt::format("{:>21}{:>6}  {:<8}{:>10.1f}{:>9.4g}{:>11}{:>14}{:>11}{:>11}\n", shape, p.out, p.who, us,
                     p.teraflops(), is_other ? percent_of(p.teraflops(), reference->teraflops()) : "-",
                     percent_of(least_us(run, p), us),
                     p.sustained_us > 0 ? fmt::format("{:.4g}", p.sustained_teraflops()) : "-",
                     is_other ? percent_of(p.sustained_teraflops(), reference->sustained_teraflops()) : "-");
}

}  // namespace baton::cli
