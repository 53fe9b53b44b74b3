// The products of fp16, dense and of groups of rows, compiled for GPUs.
#include "device/entry.cuh"
#include "kernels/gemm/instances.hpp"
#include "kernels/gemm/kernel.hpp"

namespace baton {

using gemm_kernels::group_kernel;
using gemm_kernels::kernel_of;
using gemm_kernels::params;
using gemm_kernels::split_kernel;

#define BATON_FP16_GEMM(tiles)                                    \
  BATON_KERNEL(kernel_of<float16, float16, tiles, true>, params); \
  BATON_KERNEL(kernel_of<float, float16, tiles, true>, params)

BATON_FP16_GEMM(gemm_tiles::paired);
BATON_FP16_GEMM(gemm_tiles::wide);
BATON_FP16_GEMM(gemm_tiles::medium);
BATON_FP16_GEMM(gemm_tiles::narrow);
BATON_KERNEL(split_kernel<float16, float16>, params);
BATON_KERNEL(split_kernel<float, float16>, params);
BATON_KERNEL(group_kernel<float16, false>, params);
BATON_KERNEL(group_kernel<float16, true>, params);

}  // namespace baton
