// The kernels of layout per_rank in chunks that put.
#include "kernels/ep/per_rank_chunks/far_kernels.hpp"
#include "nvshmem/entry_beyond.cuh"

namespace baton {
namespace {

using namespace ep::per_rank_chunks;

cudaError_t enqueue_dispatch(const nvshmem_launch& l) {
  cudaError_t status = cudaErrorInvalidDeviceFunction;
  with_far_dispatch(
      *static_cast<const far_dispatch_params*>(l.params), l.tokens_are_given,
      [&]<class Kernel>() { status = enqueue_beyond<Kernel, far_dispatch_params>(l, l.grid.shared_bytes); });
  return status;
}

template <class Output>
cudaError_t enqueue_combine(const nvshmem_launch& l) {
  using params = far_combine_params<Output>;
  cudaError_t status = cudaErrorInvalidDeviceFunction;
  with_far_combine(*static_cast<const params*>(l.params),
                   [&]<class Kernel>() { status = enqueue_beyond<Kernel, params>(l, l.grid.shared_bytes); });
  return status;
}

}  // namespace

cudaError_t enqueue_chunks(const nvshmem_launch& l) {
  using kernel = nvshmem_launch::kernel;
  switch (l.what) {
    case kernel::dispatch_chunks:
      return enqueue_dispatch(l);
    case kernel::combine_chunks_to_fp32:
      return enqueue_combine<ep::store_fp32>(l);
    case kernel::combine_chunks_to_bf16:
      return enqueue_combine<ep::store_bf16>(l);
    default:
      return cudaErrorInvalidDeviceFunction;
  }
}

}  // namespace baton
