// The products of groups of rows, compiled for GPUs.
#include "device/entry.cuh"
#include "kernels/gemm/instances.hpp"
#include "kernels/gemm/kernel.hpp"

namespace baton {

using gemm_kernels::group_kernel;
using gemm_kernels::params;

BATON_KERNEL(group_kernel<bfloat16>, params);

}  // namespace baton
