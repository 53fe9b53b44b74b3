// The kernels of layout per_expert that put.
#include "kernels/ep/per_expert/select.hpp"
#include "nvshmem/entry_beyond.cuh"

namespace baton {
namespace {

template <class Params>
cudaError_t enqueue_as(const nvshmem_launch& l) {
  const ep::launch_config config{.format = static_cast<token_format>(l.format),
                                 .arrival = static_cast<arrival_policy>(l.arrival),
                                 .tokens_are_given = l.tokens_are_given};
  cudaError_t status = cudaErrorInvalidDeviceFunction;
  ep::select(config, *static_cast<const Params*>(l.params), [&]<class Kernel>(std::size_t shared_bytes) {
    status = enqueue_beyond<Kernel, Params>(l, shared_bytes);
  });
  return status;
}

}  // namespace

cudaError_t enqueue_per_expert(const nvshmem_launch& l) {
  using kernel = nvshmem_launch::kernel;
  switch (l.what) {
    case kernel::dispatch_async:
      return enqueue_as<ep::dispatch_async_params<ep::tensor_scales, peer_puts>>(l);
    case kernel::combine_async:
      return enqueue_as<ep::combine_async_params<peer_puts>>(l);
    default:
      return cudaErrorInvalidDeviceFunction;
  }
}

}  // namespace baton
