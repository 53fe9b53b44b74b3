#pragma once
// gemm on host memory, in plain loops.
#include "baton/gemm.hpp"
#include "kernels/gemm/params.hpp"

namespace baton::gemm_cpu {

/// See baton::gemm.
template <class Out>
void run(const gemm_problem<Out>& problem);

/// See baton::grouped_gemm.
void run(const gemm_kernels::operands<bfloat16>& problem);

extern template void run(const gemm_problem<bfloat16>&);
/// See baton::grouped_gemm.
void run(const gemm_kernels::operands<bfloat16>& problem);

extern template void run(const gemm_problem<float>&);

}  // namespace baton::gemm_cpu
