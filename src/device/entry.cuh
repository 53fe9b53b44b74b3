#pragma once
// The one __global__ function of the library: builds the context and hands over to the kernel.
#include "device/group_gpu.cuh"
#include "exec/kernel.hpp"

namespace baton {

/// Contexts are classes of their own where another way to elect a lane would change what other kernels compile to.
template <kernel_bounds B>
using context_of = std::conditional_t<B.in_groups, group_gpu<B.cluster>, async_gpu<B.cluster>>;

template <class Kernel, class Params>
__global__ void __launch_bounds__(bounds_of<Kernel>().max_threads, bounds_of<Kernel>().blocks_per_sm)
    entry(const __grid_constant__ Params p, const __grid_constant__ launched_by by) {
  if constexpr (requires { Kernel::shared_bytes; })  // a comment in the listing, for tools/kernel_table.py
    asm volatile("// shared memory: %0" ::"n"(Kernel::shared_bytes));
  context_of<bounds_of<Kernel>()> x{by.rank, by.limits};
  Kernel::run(x, p);
}

template <class Kernel, class Params>
const void* device_entry() {
  return reinterpret_cast<const void*>(entry<Kernel, Params>);
}

}  // namespace baton

/// BATON_KERNEL(kernel, params): compiles the kernel for GPUs.
#define BATON_KERNEL(...) template const void* baton::device_entry<__VA_ARGS__>()
