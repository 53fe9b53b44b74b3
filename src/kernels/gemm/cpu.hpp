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

/// The same of e4m3 with scales, or of one product of them.
void run(const gemm_kernels::operands<bfloat16, float8_e4m3>& problem);

extern template void run(const gemm_problem<bfloat16>&);
extern template void run(const gemm_problem<float>&);

}  // namespace baton::gemm_cpu
