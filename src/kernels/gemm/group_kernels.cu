// The products of groups of rows, gated ones too, and those of e4m3 with scales, compiled for GPUs.
#include "device/entry.cuh"
#include "kernels/gemm/instances.hpp"
#include "kernels/gemm/kernel.hpp"

namespace baton {

using gemm_kernels::gated_kernel;
using gemm_kernels::group_kernel;
using gemm_kernels::params;
using gemm_kernels::scaled_group_kernel;
using gemm_kernels::scaled_kernel;
using gemm_kernels::split_kernel;

BATON_KERNEL(group_kernel<bfloat16, false>, params);
BATON_KERNEL(group_kernel<bfloat16, true>, params);

BATON_KERNEL(scaled_kernel<gemm_tiles::paired>, params);
BATON_KERNEL(scaled_kernel<gemm_tiles::medium>, params);
BATON_KERNEL(split_kernel<bfloat16, float8_e4m3>, params);
BATON_KERNEL(split_kernel<bfloat16, float8_e4m3, gemm_tiles::medium>, params);
BATON_KERNEL(scaled_group_kernel<false>, params);
BATON_KERNEL(scaled_group_kernel<true>, params);

#define BATON_GATED(block_scaled)                          \
  BATON_KERNEL(gated_kernel<block_scaled, false>, params); \
  BATON_KERNEL(gated_kernel<block_scaled, true>, params)

BATON_GATED(false);
BATON_GATED(true);

}  // namespace baton
