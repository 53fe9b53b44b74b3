#pragma once
// The only door from the host to the product of groups, for both devices. No device code.
#include "baton/gemm.hpp"
#include "kernels/gemm/params.hpp"

namespace baton::gemm_kernels {

/// Enqueues c = activation(alpha * a * b^T + beta * c + bias) on `stream` and returns: a kernel on CUDA, with at most
/// `config.num_sms` blocks and at least a cluster; plain loops on the CPU. All has been checked. Throws cuda_error if the launch
/// fails.
template <class Out, class In>
void run(const world& w, const gemm_problem<Out, In>& problem, const gemm_config& config, stream_ref stream);

extern template void run(const world&, const gemm_problem<bfloat16>&, const gemm_config&, stream_ref);
extern template void run(const world&, const gemm_problem<float>&, const gemm_config&, stream_ref);
extern template void run(const world&, const gemm_problem<float16, float16>&, const gemm_config&, stream_ref);
extern template void run(const world&, const gemm_problem<float, float16>&, const gemm_config&, stream_ref);

/// The same for groups of rows, with the rows of each on the device, a bias for each group and a weight for each row, and without
/// alpha and beta.
void run(const world& w, const operands<bfloat16>& problem, int num_sms, stream_ref stream);
void run(const world& w, const operands<float16, float16>& problem, int num_sms, stream_ref stream);

/// The same of e4m3 with scales: for groups of rows, and for one product, with tiles automatic, paired or medium.
void run(const world& w, const operands<bfloat16, float8_e4m3>& problem, int num_sms, stream_ref stream);
void run(const world& w, const operands<bfloat16, float8_e4m3>& problem, const gemm_config& config,
         stream_ref stream);

/// c = silu(a * b^T + bias) . (a * b_up^T + up_bias) of groups of rows, or another gate, on CUDA; of e4m3 c has scales too. With
/// a_list a's rows lie where it says.
void run_gated(const world& w, const operands<bfloat16>& problem, int num_sms, stream_ref stream);
void run_gated(const world& w, const operands<float8_e4m3, float8_e4m3>& problem, int num_sms,
               stream_ref stream);

}  // namespace baton::gemm_kernels
