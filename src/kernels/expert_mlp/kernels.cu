// The configurations of the expert MLP that are compiled for GPUs.
#include "device/entry.cuh"
#include "kernels/expert_mlp/kernel.cuh"

namespace baton {

using expert_mlp_kernels::expert_mlp_kernel;
using expert_mlp_kernels::params;

BATON_KERNEL(expert_mlp_kernel<constant<expert_mlp_kernels::gate_up_bf16>>, params);
BATON_KERNEL(expert_mlp_kernel<constant<expert_mlp_kernels::gate_up_fp8>>, params);
BATON_KERNEL(expert_mlp_kernel<constant<expert_mlp_kernels::down_bf16>>, params);

}  // namespace baton
