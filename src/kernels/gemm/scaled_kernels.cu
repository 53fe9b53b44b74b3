// The products of e4m3 with scales, dense and of groups of rows, compiled for GPUs.
#include "device/entry.cuh"
#include "kernels/gemm/instances.hpp"
#include "kernels/gemm/kernel.hpp"

namespace baton {

using gemm_kernels::params;
using gemm_kernels::scaled_group_kernel;
using gemm_kernels::scaled_kernel;

BATON_KERNEL(scaled_kernel<gemm_tiles::paired>, params);
BATON_KERNEL(scaled_kernel<gemm_tiles::medium>, params);
BATON_KERNEL(scaled_group_kernel, params);

}  // namespace baton
