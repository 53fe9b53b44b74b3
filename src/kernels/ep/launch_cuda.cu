#include "device/gpu.cuh"
#include "kernels/ep/launch_cuda.hpp"
#include "kernels/ep/select.hpp"
#include "runtime/device_guard_cuda.hpp"
#include "runtime/error.hpp"

namespace baton::ep {
namespace {

template <class Kernel, class Params>
__global__ void __launch_bounds__(1024)
    kernel(const __grid_constant__ Params p, const __grid_constant__ wait_limits limits) {
  gpu x{p.s.rank, limits};
  Kernel::run(x, p);
}

}  // namespace

template <class Params>
void launch_cuda(const world& w, const launch_config& c, const Params& p, stream_ref stream) {
  select(c, p, [&]<class Kernel>(std::size_t shared_bytes) {
    const device_guard on_device{w.device_index()};
    cudaLaunchConfig_t launch{};
    launch.gridDim = dim3(static_cast<unsigned>(c.blocks));
    launch.blockDim = dim3(static_cast<unsigned>(c.threads));
    launch.dynamicSmemBytes = shared_bytes;
    launch.stream = static_cast<cudaStream_t>(stream.native);
    check(cudaLaunchKernelEx(&launch, kernel<Kernel, Params>, p, c.limits));
  });
}

template void launch_cuda(const world&, const launch_config&, const dispatch_async_params<>&, stream_ref);
template void launch_cuda(const world&, const launch_config&, const dispatch_wait_params&, stream_ref);
template void launch_cuda(const world&, const launch_config&, const combine_async_params&, stream_ref);
template void launch_cuda(const world&, const launch_config&, const combine_wait_params<store_fp32>&,
                          stream_ref);
template void launch_cuda(const world&, const launch_config&, const combine_wait_params<store_bf16>&,
                          stream_ref);
template void launch_cuda(const world&, const launch_config&, const combine_wait_params<store_unreduced>&,
                          stream_ref);

}  // namespace baton::ep
