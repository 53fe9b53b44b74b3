// libbaton_nvshmem.so: the kernels of layout per_expert that put, and NVSHMEM's calls. A library of its own, as NVSHMEM's device
// code has to be linked into what uses it, and only who asks for it needs NVSHMEM.
#include <cuda_runtime_api.h>

#include <cstring>

#include "exec/kernel.hpp"
#include "kernels/ep/per_expert/select.hpp"
#include "nvshmem/nvshmem_gpu.cuh"
#include "runtime/nvshmem_calls.hpp"

namespace baton {
namespace {

template <class Kernel, class Params>
__global__ void __launch_bounds__(bounds_of<Kernel>().max_threads, bounds_of<Kernel>().blocks_per_sm)
    entry_beyond(const __grid_constant__ Params p, const __grid_constant__ launched_by by) {
  nvshmem_gpu x{by.rank, by.limits};
  Kernel::run(x, p);
}

static_assert(sizeof(nvshmemx_uniqueid_t) <= nvshmem_id_bytes);

int make_id(void* id) {
  nvshmemx_uniqueid_t made = NVSHMEMX_UNIQUEID_INITIALIZER;
  const int status = nvshmemx_get_uniqueid(&made);
  std::memcpy(id, &made, sizeof made);
  return status;
}

int join(int rank, int ranks, const void* id) {
  nvshmemx_uniqueid_t of_all = NVSHMEMX_UNIQUEID_INITIALIZER;
  std::memcpy(&of_all, id, sizeof of_all);
  nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
  if (const int status = nvshmemx_set_attr_uniqueid_args(rank, ranks, &of_all, &attributes); status != 0)
    return status;
  return nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attributes);
}

template <class Params>
cudaError_t launch_as(const nvshmem_launch& l) {
  const Params& p = *static_cast<const Params*>(l.params);
  const ep::launch_config config{.format = static_cast<token_format>(l.format),
                                 .arrival = static_cast<arrival_policy>(l.arrival),
                                 .tokens_are_given = l.tokens_are_given};
  cudaError_t status = cudaErrorInvalidDeviceFunction;
  ep::select(config, p, [&]<class Kernel>(std::size_t shared_bytes) {
    const void* entry = reinterpret_cast<const void*>(entry_beyond<Kernel, Params>);
    status = cudaFuncSetAttribute(entry, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(shared_bytes));
    if (status != cudaSuccess) return;
    void* arguments[] = {const_cast<void*>(l.params), const_cast<launched_by*>(&l.by)};
    status = cudaLaunchKernel(entry, dim3(static_cast<unsigned>(l.grid.blocks)),
                              dim3(static_cast<unsigned>(l.grid.threads)), arguments, shared_bytes,
                              static_cast<cudaStream_t>(l.stream));
  });
  return status;
}

int launch(const nvshmem_launch& l) {
  return l.what == nvshmem_launch::kernel::dispatch_async
             ? launch_as<ep::dispatch_async_params<ep::tensor_scales, peer_puts>>(l)
             : launch_as<ep::combine_async_params<peer_puts>>(l);
}

constexpr nvshmem_calls calls{
    .built_with = NVSHMEM_VENDOR_MAJOR_VERSION * 10000 + NVSHMEM_VENDOR_MINOR_VERSION * 100 +
                  NVSHMEM_VENDOR_PATCH_VERSION,
    .make_id = make_id,
    .join = join,
    .allocate = [](std::size_t bytes) { return nvshmem_malloc(bytes); },
    .of_rank = [](const void* memory, int rank) { return nvshmem_ptr(memory, rank); },
    .launch = launch};

}  // namespace
}  // namespace baton

extern "C" __attribute__((visibility("default"))) const baton::nvshmem_calls* baton_nvshmem() {
  return &baton::calls;
}
