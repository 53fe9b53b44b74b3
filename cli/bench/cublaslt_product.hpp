#pragma once
// The product that scaled_gemm is measured beside: cuBLASLt's, with the same scales of blocks, loaded at run time, on the same
// operands in the same run.
#include <memory>
#include <string>

#include "baton/scaled_gemm.hpp"
#include "baton/weight_format.hpp"

namespace baton::cli {

/// Null, or what cuBLASLt asks of operands that scaled_gemm does not.
constexpr const char* why_not_cublaslt(const scaled_gemm_problem& p) {
  if (p.m % 4 != 0) return "m is no multiple of 4";
  if (weight_scales(p.k) % 4 != 0) return "rows of b's scales are no multiple of 4 long";
  if (p.a_layout != scale_layout::column_major) return "scales of a are not column-major";
  return nullptr;
}

class cublaslt_product {
 public:
  virtual ~cublaslt_product() = default;
  virtual std::string version() const = 0;
  /// Empty: enqueue can do it. What was chosen for a problem is kept for the next calls with the same one.
  virtual std::string why_not(const scaled_gemm_problem& problem) = 0;
  /// The same operands and result as scaled_gemm.
  virtual void enqueue(const scaled_gemm_problem& problem, stream_ref stream) = 0;
};

/// Null, and why, where there is no cuBLASLt, no GPU or no CUDA in this build. BATON_CUBLASLT names the library.
std::unique_ptr<cublaslt_product> open_cublaslt(const world& world, std::string& why_not);

}  // namespace baton::cli
