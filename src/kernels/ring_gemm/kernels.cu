// The configurations of the ring-buffered product that are compiled for GPUs.
#include "device/entry.cuh"
#include "kernels/ring_gemm/kernel.hpp"

namespace baton {

using ring_gemm_kernels::large_kernel;
using ring_gemm_kernels::params;
using ring_gemm_kernels::small_kernel;

BATON_KERNEL(large_kernel<ring_strategy::single_counter>, params);
BATON_KERNEL(large_kernel<ring_strategy::split_counter>, params);
BATON_KERNEL(large_kernel<ring_strategy::per_reader_flags>, params);
BATON_KERNEL(large_kernel<ring_strategy::mbarrier>, params);
BATON_KERNEL(small_kernel<ring_strategy::single_counter>, params);
BATON_KERNEL(small_kernel<ring_strategy::split_counter>, params);
BATON_KERNEL(small_kernel<ring_strategy::per_reader_flags>, params);
BATON_KERNEL(small_kernel<ring_strategy::mbarrier>, params);

}  // namespace baton
