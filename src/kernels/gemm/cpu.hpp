#pragma once
// gemm on host memory, in plain loops.
#include "baton/gemm.hpp"

namespace baton::gemm_cpu {

/// See baton::gemm.
template <class Out>
void run(const gemm_problem<Out>& problem);

extern template void run(const gemm_problem<bfloat16>&);
extern template void run(const gemm_problem<float>&);

}  // namespace baton::gemm_cpu
