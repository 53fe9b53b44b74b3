// Products of groups of rows, and those of e4m3 with scales, that end in more than their sums (epilogue.hpp), compiled for GPUs.
#include "device/entry.cuh"
#include "kernels/gemm/instances.hpp"
#include "kernels/gemm/kernel.hpp"

namespace baton {

using gemm_kernels::group_kernel;
using gemm_kernels::params;
using gemm_kernels::scaled_group_kernel;
using gemm_kernels::scaled_kernel;
using gemm_kernels::split_kernel;

BATON_KERNEL(group_kernel<bfloat16, false, true>, params);
BATON_KERNEL(group_kernel<bfloat16, true, true>, params);
BATON_KERNEL(group_kernel<float16, false, true>, params);
BATON_KERNEL(group_kernel<float16, true, true>, params);

BATON_KERNEL(scaled_kernel<gemm_tiles::paired, true>, params);
BATON_KERNEL(scaled_kernel<gemm_tiles::medium, true>, params);
BATON_KERNEL(split_kernel<bfloat16, float8_e4m3, gemm_tiles::narrow, true>, params);
BATON_KERNEL(split_kernel<bfloat16, float8_e4m3, gemm_tiles::medium, true>, params);
BATON_KERNEL(scaled_group_kernel<false, true>, params);
BATON_KERNEL(scaled_group_kernel<true, true>, params);

}  // namespace baton
