#pragma once
// gemm on host memory, in plain loops.
#include "baton/gemm.hpp"
#include "kernels/gemm/params.hpp"

namespace baton::gemm_cpu {

/// See baton::gemm.
template <class Out, class In>
void run(const gemm_problem<Out, In>& problem);

/// See baton::grouped_gemm.
template <class Value>
void run(const gemm_kernels::operands<Value, Value>& problem);

/// The same of e4m3 with scales, or of one product of them.
void run(const gemm_kernels::operands<bfloat16, float8_e4m3>& problem);

extern template void run(const gemm_problem<bfloat16>&);
extern template void run(const gemm_problem<float>&);
extern template void run(const gemm_problem<float16, float16>&);
extern template void run(const gemm_problem<float, float16>&);
extern template void run(const gemm_kernels::operands<bfloat16>&);
extern template void run(const gemm_kernels::operands<float16, float16>&);

}  // namespace baton::gemm_cpu
