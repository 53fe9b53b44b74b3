// The gated products of groups, compiled for GPUs.
#include "device/entry.cuh"
#include "kernels/gemm/instances.hpp"
#include "kernels/gemm/kernel.hpp"

namespace baton {

using gemm_kernels::gated_kernel;
using gemm_kernels::params;

#define BATON_GATED(block_scaled)                          \
  BATON_KERNEL(gated_kernel<block_scaled, false>, params); \
  BATON_KERNEL(gated_kernel<block_scaled, true>, params)

BATON_GATED(false);
BATON_GATED(true);

}  // namespace baton
