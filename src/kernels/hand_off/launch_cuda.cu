#include "kernels/hand_off/kernel.cuh"
#include "kernels/hand_off/launch.hpp"
#include "runtime/error.hpp"

namespace baton::hand_off {
namespace {

constexpr int cells_bytes = 4096;

template <class Kernel>
__global__ void __launch_bounds__((1 + most_readers) * warp_lanes) kernel(const __grid_constant__ params p) {
  async_gpu<1> x{p.rank, p.limits};
  Kernel::run(x, p);
}

template <class Kernel>
void launch_as(const point& at, const params& p, stream_ref stream) {
  cudaLaunchConfig_t c{};
  c.gridDim = dim3(static_cast<unsigned>(at.blocks));
  c.blockDim = dim3(static_cast<unsigned>((1 + at.readers) * warp_lanes));
  c.dynamicSmemBytes = cells_bytes;
  c.stream = static_cast<cudaStream_t>(stream.native);
  check(cudaLaunchKernelEx(&c, kernel<Kernel>, p), "launching hand-offs");
}

template <ring_strategy Name, int... i>
void launch_with(const point& at, const params& p, stream_ref stream, std::integer_sequence<int, i...>) {
  ((at.stages == i + 1 ? launch_as<hand_off_kernel<Name, i + 1>>(at, p, stream) : void()), ...);
}

}  // namespace

void launch(const point& at, const params& p, stream_ref stream) {
  constexpr auto stages = std::make_integer_sequence<int, most_stages>{};
  switch (at.strategy) {
    case ring_strategy::single_counter:
      return launch_with<ring_strategy::single_counter>(at, p, stream, stages);
    case ring_strategy::split_counter:
      return launch_with<ring_strategy::split_counter>(at, p, stream, stages);
    case ring_strategy::per_reader_flags:
      return launch_with<ring_strategy::per_reader_flags>(at, p, stream, stages);
    default:
      return launch_with<ring_strategy::mbarrier>(at, p, stream, stages);
  }
}

}  // namespace baton::hand_off
