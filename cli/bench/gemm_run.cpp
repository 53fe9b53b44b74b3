#include "cli/bench/gemm_run.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "baton/device_buffer.hpp"
#include "baton/version.hpp"
#include "cli/bench/gpu_facts.hpp"
#include "cli/bench/statistics.hpp"
#include "cli/bench/tensor_rate/tensor_rate.hpp"

namespace baton::cli {
namespace {

nlohmann::json if_known(const std::string& text) {
  return text.empty() ? nlohmann::json() : nlohmann::json(text);
}

void measure_limits(gemm_run& run, const world& where, paced_timer& timer) {
  const tensor_rate::session tensor_cores{where};
  const work multiply = [&](stream_ref stream) { tensor_cores.enqueue(stream); };
  run.tensor_flops_per_us = tensor_cores.flops() / timer.burst(multiply);
  if (run.sustained_ms > 0)
    run.sustained_tensor_flops_per_us = tensor_cores.flops() / timer.sustained(multiply, run.sustained_ms);
  constexpr std::size_t bytes = 256 << 20;  // more than the L2 holds
  device_buffer<std::byte> from{where, bytes}, to{where, bytes};
  const work copy = [&](stream_ref stream) { copy_async(where, to.data(), from.data(), bytes, stream); };
  run.copied_bytes_per_us = 2.0 * bytes / timer.burst(copy);
}

}  // namespace

gemm_run begin_gemm_run(std::span<const world> ranks, paced_timer& timer, int sustained_ms) {
  const bool on_gpu = ranks[0].device() == device_kind::cuda;
  gemm_run run;
  run.device = on_gpu ? "cuda" : "cpu";
  run.date = utc_now();
  if (const std::optional<measured_gpus> gpu = facts_of(ranks)) {
    run.gpu = gpu->name;
    run.driver = gpu->driver;
  }
  if (on_gpu) {
    run.sustained_ms = sustained_ms;
    measure_limits(run, ranks[0], timer);
  }
  return run;
}

gemm_run limits_of(gemm_run run, operand_format format) {
  const double rate = format == operand_format::e4m3 ? 2 : 1;  // of tensor cores
  run.tensor_flops_per_us *= rate;
  run.sustained_tensor_flops_per_us *= rate;
  return run;
}

double least_us(const gemm_run& run, double flops, double bytes) {
  if (run.tensor_flops_per_us <= 0 || run.copied_bytes_per_us <= 0) return 0;
  return std::max(flops / run.tensor_flops_per_us, bytes / run.copied_bytes_per_us);
}

double teraflops(double flops, double us) {
  return us > 0 ? flops / us / 1e6 : 0;
}

nlohmann::json if_measured(double value) {
  return value > 0 ? nlohmann::json(value) : nlohmann::json();
}

std::string percent_of(double part, double whole) {
  return part > 0 && whole > 0 ? fmt::format("{:.1f} %", 100 * part / whole) : "-";
}

nlohmann::json with_times(nlohmann::json point, const gemm_run& run, const gemm_times& t) {
  const double median = median_of(t.burst_us);
  point.update({{"checked", t.wrong.empty()},
                {"wrong", if_known(t.wrong)},
                {"flops", t.flops},
                {"bytes", t.bytes},
                {"burst_median_us", if_measured(median)},
                {"burst_mad_us", t.burst_us.empty() ? nlohmann::json() : nlohmann::json(mad_of(t.burst_us))},
                {"burst_tflops", if_measured(teraflops(t.flops, median))},
                {"burst_samples_us", t.burst_us},
                {"sustained_ms", run.sustained_ms},
                {"sustained_us", if_measured(t.sustained_us)},
                {"sustained_tflops", if_measured(teraflops(t.flops, t.sustained_us))},
                {"least_us", if_measured(least_us(run, t.flops, t.bytes))},
                {"tensor_tflops", if_measured(run.tensor_flops_per_us / 1e6)},
                {"sustained_tensor_tflops", if_measured(run.sustained_tensor_flops_per_us / 1e6)},
                {"copied_gb_per_s", if_measured(run.copied_bytes_per_us / 1e3)},
                {"cublas", if_known(run.cublas)},
                {"cublaslt", if_known(run.cublaslt)},
                {"device", run.device},
                {"gpu", if_known(run.gpu)},
                {"driver", run.driver == 0 ? nlohmann::json() : nlohmann::json(run.driver)},
                {"date", run.date},
                {"version", version()},
                {"build", build_info()}});
  return point;
}

void print_limits(const gemm_run& run, const char* what, std::ostream& out) {
  out << fmt::format("{}, on {}\n", what, run.gpu.empty() ? "the CPU" : run.gpu);
  if (run.tensor_flops_per_us > 0)
    out << fmt::format("tensor cores alone {:.0f} TFLOP/s in a burst, {} sustained; a copy {:.0f} GB/s\n",
                       run.tensor_flops_per_us / 1e6,
                       run.sustained_tensor_flops_per_us > 0
                           ? fmt::format("{:.0f}", run.sustained_tensor_flops_per_us / 1e6)
                           : "-",
                       run.copied_bytes_per_us / 1e3);
}

}  // namespace baton::cli
