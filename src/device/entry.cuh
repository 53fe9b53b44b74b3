#pragma once
// The __global__ functions of kernels written against a context: build it and hand over.
#include "device/async_gpu.cuh"

namespace baton {

/// `Kernel::run(x, p)` with x a gpu of `p.rank` whose waits keep to `p.limits`. `MaxThreads` bounds the
/// registers of a thread: 64 K / MaxThreads.
template <class Kernel, class Params, int MaxThreads = 1024>
__global__ void __launch_bounds__(MaxThreads) entry(const __grid_constant__ Params p) {
  gpu x{p.rank, p.limits};
  Kernel::run(x, p);
}

/// The same for kernels that need async_exec_context, in clusters of `ClusterBlocks`.
template <class Kernel, class Params, int ClusterBlocks = 1, int MaxThreads = 1024>
__global__ void __cluster_dims__(ClusterBlocks, 1, 1) __launch_bounds__(MaxThreads)
    async_entry(const __grid_constant__ Params p) {
  async_gpu<ClusterBlocks> x{p.rank, p.limits};
  Kernel::run(x, p);
}

}  // namespace baton
