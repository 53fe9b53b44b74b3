#pragma once
// What measurements of products, dense and grouped, have in common: the limits of the machine in the same run, times, and how
// both are told.
#include <nlohmann/json.hpp>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "cli/bench/grouped_points.hpp"
#include "cli/bench/paced_timer.hpp"

namespace baton::cli {

struct gemm_run {
  std::string device;  // "cpu" or "cuda"
  std::string gpu, date;
  std::string cublas, cublaslt;  // their versions
  int driver = 0;
  int sustained_ms = 0;  // 0: bursts alone
  // What the GPU does at most, in this run; 0: not measured.
  double tensor_flops_per_us = 0, sustained_tensor_flops_per_us = 0, copied_bytes_per_us = 0;
};

/// Where and when; on CUDA also the limits, of the first rank's GPU. On the CPU nothing is sustained.
gemm_run begin_gemm_run(std::span<const world> ranks, paced_timer& timer, int sustained_ms);

/// The run with the limits of products of such operands: those measured are of bf16.
gemm_run limits_of(gemm_run run, operand_format format);

/// The roofline: nothing that does `flops` and moves `bytes` takes less, in a burst. 0: not measured.
double least_us(const gemm_run& run, double flops, double bytes);
/// 0: not measured.
double teraflops(double flops, double us);

/// What is known of one product after it was checked, and timed if it was right.
struct gemm_times {
  double flops = 0, bytes = 0;
  std::string wrong;
  std::vector<double> burst_us;
  double sustained_us = 0;
};
/// `point`, which says what was multiplied by whom, with the times and the run.
nlohmann::json with_times(nlohmann::json point, const gemm_run& run, const gemm_times& times);

/// null: not measured.
nlohmann::json if_measured(double value);
/// "75.0 %", or "-" if one of them was not measured.
std::string percent_of(double part, double whole);
/// `what`, on which device, and the limits if they were measured.
void print_limits(const gemm_run& run, const char* what, std::ostream& out);

}  // namespace baton::cli
