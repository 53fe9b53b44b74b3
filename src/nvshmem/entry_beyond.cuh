#pragma once
// The one __global__ function of the module, as device/entry.cuh has the library's, and how its kernels are launched: by the
// CUDA runtime that is linked into the module, which alone knows them.
#include <cuda_runtime_api.h>

#include "exec/kernel.hpp"
#include "nvshmem/nvshmem_gpu.cuh"
#include "runtime/nvshmem_calls.hpp"
#include "runtime/shared_bytes_cuda.hpp"

namespace baton {

template <class Kernel, class Params>
__global__ void __launch_bounds__(bounds_of<Kernel>().max_threads, bounds_of<Kernel>().blocks_per_sm)
    entry_beyond(const __grid_constant__ Params p, const __grid_constant__ launched_by by) {
  nvshmem_gpu x{by.rank, by.limits};
  Kernel::run(x, p);
}

/// Blocks that wait for each other need no more than all to be on the device, as within the group: nothing that these kernels
/// call of NVSHMEM waits for another rank's kernel, which is what its own collective launch would be for.
template <class Kernel, class Params>
cudaError_t enqueue_beyond(const nvshmem_launch& l, std::size_t shared_bytes) {
  if (l.params_bytes != sizeof(Params)) return static_cast<cudaError_t>(nvshmem_of_another_build);
  const void* entry = reinterpret_cast<const void*>(entry_beyond<Kernel, Params>);
  if (const cudaError_t status = on_cuda::allow_shared_bytes(entry, shared_bytes); status != cudaSuccess)
    return status;
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(l.grid.blocks));
  config.blockDim = dim3(static_cast<unsigned>(l.grid.threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = static_cast<cudaStream_t>(l.stream);
  config.attrs = &early;
  config.numAttrs = l.grid.begins_early ? 1 : 0;
  void* arguments[] = {const_cast<void*>(l.params), const_cast<launched_by*>(&l.by)};
  return cudaLaunchKernelExC(&config, entry, arguments);
}

/// Of the kernels of a layout. What is none of them is cudaErrorInvalidDeviceFunction.
cudaError_t enqueue_per_expert(const nvshmem_launch& l);
cudaError_t enqueue_chunks(const nvshmem_launch& l);
cudaError_t enqueue_two_levels(const nvshmem_launch& l);
cudaError_t enqueue_lost_rank(const nvshmem_launch& l);

}  // namespace baton
