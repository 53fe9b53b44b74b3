// Gated products of groups with biases, or another gate than silu (epilogue.hpp), compiled for GPUs.
#include "device/entry.cuh"
#include "kernels/gemm/instances.hpp"
#include "kernels/gemm/kernel.hpp"

namespace baton {

using gemm_kernels::gated_kernel;
using gemm_kernels::params;

#define BATON_ENDED_GATED(block_scaled)                          \
  BATON_KERNEL(gated_kernel<block_scaled, false, true>, params); \
  BATON_KERNEL(gated_kernel<block_scaled, true, true>, params)

BATON_ENDED_GATED(false);
BATON_ENDED_GATED(true);

}  // namespace baton
