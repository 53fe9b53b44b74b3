#include "kernels/probe/kernel.cuh"
#include "kernels/probe/launch.hpp"
#include "runtime/error.hpp"

namespace baton::probe {
namespace {

constexpr int push_threads = 1024;

template <class Kernel, class Params>
__global__ void __launch_bounds__(1024)
    kernel(const __grid_constant__ Params p, const __grid_constant__ wait_limits limits) {
  gpu x{p.rank, limits};
  Kernel::run(x, p);
}

template <class Kernel, class Params>
void launch(const Params& p, int blocks, int threads, const wait_limits& limits, stream_ref stream) {
  cudaLaunchConfig_t c{};
  c.gridDim = dim3(static_cast<unsigned>(blocks));
  c.blockDim = dim3(static_cast<unsigned>(threads));
  c.stream = static_cast<cudaStream_t>(stream.native);
  check(cudaLaunchKernelEx(&c, kernel<Kernel, Params>, p, limits), "launching a probe kernel");
}

}  // namespace

void launch_push(const push_params& p, int blocks, stream_ref stream) {
  launch<push_kernel>(p, blocks, push_threads, wait_limits{}, stream);
}

void launch_bounce(const bounce_params& p, bool ordered, const wait_limits& limits, stream_ref stream) {
  if (ordered)
    launch<bounce_kernel<order::acquire, order::release>>(p, 1, warp_lanes, limits, stream);
  else
    launch<bounce_kernel<order::relaxed, order::relaxed>>(p, 1, warp_lanes, limits, stream);
}

}  // namespace baton::probe
