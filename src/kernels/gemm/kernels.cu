// The products of bf16, compiled for GPUs.
#include "device/entry.cuh"
#include "kernels/gemm/instances.hpp"
#include "kernels/gemm/kernel.hpp"

namespace baton {

using gemm_kernels::kernel_of;
using gemm_kernels::params;
using gemm_kernels::split_kernel;

#define BATON_GEMM(tiles)                                            \
  BATON_KERNEL(kernel_of<bfloat16, bfloat16, tiles, false>, params); \
  BATON_KERNEL(kernel_of<bfloat16, bfloat16, tiles, true>, params);  \
  BATON_KERNEL(kernel_of<float, bfloat16, tiles, false>, params);    \
  BATON_KERNEL(kernel_of<float, bfloat16, tiles, true>, params)

BATON_GEMM(gemm_tiles::paired);
BATON_GEMM(gemm_tiles::wide);
BATON_GEMM(gemm_tiles::medium);
BATON_GEMM(gemm_tiles::narrow);
BATON_KERNEL(split_kernel<bfloat16, bfloat16>, params);
BATON_KERNEL(split_kernel<float, bfloat16>, params);

}  // namespace baton
