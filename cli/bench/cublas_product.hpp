#pragma once
// The product that gemm and ring_gemm are measured beside: cuBLAS, loaded at run time, on the same operands in the same run.
#include <memory>
#include <string>

#include "baton/gemm.hpp"

namespace baton::cli {

class cublas_product {
 public:
  virtual ~cublas_product() = default;
  virtual std::string version() const = 0;
  /// The same operands and result as gemm.
  virtual void enqueue(const gemm_problem<bfloat16>& problem, stream_ref stream) = 0;
  virtual void enqueue(const gemm_problem<float>& problem, stream_ref stream) = 0;
  virtual void enqueue(const gemm_problem<float16, float16>& problem, stream_ref stream) = 0;
  virtual void enqueue(const gemm_problem<float, float16>& problem, stream_ref stream) = 0;
};

/// Null, and why, where there is no cuBLAS, no GPU or no CUDA in this build. BATON_CUBLAS names the library.
std::unique_ptr<cublas_product> open_cublas(const world& world, std::string& why_not);

}  // namespace baton::cli
