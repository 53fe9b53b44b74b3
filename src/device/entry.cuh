#pragma once
// The one __global__ of the exchange: builds the context and hands over to a kernel written against it.
#include "device/gpu.cuh"

namespace baton {

/// `Kernel::run(x, p)` with x a gpu of `p.rank` whose waits keep to `p.limits`. `MaxThreads` bounds the
/// registers of a thread: 64 K / MaxThreads.
template <class Kernel, class Params, int MaxThreads = 1024>
__global__ void __launch_bounds__(MaxThreads) entry(const __grid_constant__ Params p) {
  gpu x{p.rank, p.limits};
  Kernel::run(x, p);
}

}  // namespace baton
