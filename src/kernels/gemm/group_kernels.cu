// The products of groups of rows, compiled for GPUs.
#include "device/entry.cuh"
#include "kernels/gemm/instances.hpp"
#include "kernels/gemm/kernel.hpp"

namespace baton {

using gemm_kernels::group_kernel_of;
using gemm_kernels::params;

BATON_KERNEL(group_kernel_of<false>, params);
BATON_KERNEL(group_kernel_of<true>, params);

}  // namespace baton
