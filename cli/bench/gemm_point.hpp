#pragma once
// Measured points of `baton bench gemm`, and how they are told.
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "cli/bench/gemm_run.hpp"
#include "cli/bench/gemm_session.hpp"

namespace baton::cli {

struct gemm_point {
  gemm_shape shape;
  std::string out{};  // "bf16", "fp16", "fp32"
  std::string who{};  // the tiles of baton's product, "..., k/4" with so many splits, or "cublas", "cublaslt"
  std::string wrong{};  // the first wrong element; empty: all that were looked at are exact
  std::vector<double> burst_us{};
  double sustained_us = 0;  // 0: not measured
  operand_format format = operand_format::bf16;

  /// Every operand read and every result written once; scales, a thirty-second more or less, are left out.
  double bytes() const;
  /// Of the median burst, and of the sustained time. 0: not measured.
  double teraflops() const;
  double sustained_teraflops() const;
};

/// The roofline: no product of this shape takes less, in a burst. 0: not measured.
double least_us(const gemm_run& run, const gemm_point& point);

nlohmann::json to_json(const gemm_run& run, const gemm_point& point);
void print_columns(std::ostream& out);
/// `run` has the limits of the format. `reference`: cuBLAS's point of the same product; null: not measured.
void print(const gemm_run& run, const gemm_point& point, const gemm_point* reference, std::ostream& out);

}  // namespace baton::cli
