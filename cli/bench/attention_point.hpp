#pragma once
// Measured points of `baton bench attention`, and how they are told.
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "cli/bench/attention_points.hpp"
#include "cli/bench/gemm_run.hpp"

namespace baton::cli {

/// The run, and what cuBLAS makes of 8192^3 in bf16 in it, paced as the points are.
struct attention_run {
  gemm_run of;
  double cublas_us = 0, cublas_sustained_us = 0;  // 0: not measured
  std::string why_no_cublas{};

  double cublas_teraflops() const;
  double cublas_sustained_teraflops() const;
};
inline constexpr int cublas_size = 8192;

struct attention_point {
  attention_size size;
  std::string why_not{};  // no kernel does it; empty: one does
  std::string wrong{};    // the first wrong value; empty: all that were looked at are right
  std::vector<double> burst_us{};
  double sustained_us = 0;  // 0: not measured

  double teraflops() const;
  double sustained_teraflops() const;
};

nlohmann::json to_json(const attention_run& run, const attention_point& point);
void print_attention_header(const attention_run& run, std::ostream& out);
void print(const attention_run& run, const attention_point& point, std::ostream& out);

}  // namespace baton::cli
