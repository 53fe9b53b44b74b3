#include "base/constant.hpp"
#include "device/async_gpu.cuh"
#include "kernels/ring_gemm/kernel.hpp"
#include "kernels/ring_gemm/launch_cuda.hpp"
#include "runtime/device_guard_cuda.hpp"
#include "runtime/error.hpp"

namespace baton::ring_gemm_kernels {
namespace {

template <class Kernel>
__global__ void __launch_bounds__(Kernel::c.threads(), Kernel::c.blocks_per_sm)
    kernel(const __grid_constant__ params p) {
  async_gpu<1> x{p.rank, p.limits};
  Kernel::run(x, p);
}

}  // namespace

void launch_cuda(const world& w, const launch_config& c, const params& p, stream_ref stream) {
  with_config(c.strategy, c.large, [&]<config C>() {
    const device_guard on_device{w.device_index()};
    constexpr auto entry = kernel<ring_gemm_kernel<constant<C>>>;
    constexpr int shared_bytes = plan<C>().bytes;
    check(cudaFuncSetAttribute(entry, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
    const int tiles = tile_walk{p.m, p.n, C.block_m(), C.block_n()}.size();
    cudaLaunchConfig_t launch{};
    launch.gridDim = dim3(static_cast<unsigned>(smaller(tiles, c.num_sms * C.blocks_per_sm)));
    launch.blockDim = dim3(static_cast<unsigned>(C.threads()));
    launch.dynamicSmemBytes = shared_bytes;
    launch.stream = static_cast<cudaStream_t>(stream.native);
    check(cudaLaunchKernelEx(&launch, entry, p));
  });
}

}  // namespace baton::ring_gemm_kernels
