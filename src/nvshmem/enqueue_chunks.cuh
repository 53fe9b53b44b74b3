#pragma once
// How kernels of layout per_rank in chunks that put are launched; `Reach` makes their parameters of those of one group:
// far_params, or two_level_params.
#include "kernels/ep/per_rank_chunks/far_kernels.hpp"
#include "nvshmem/entry_beyond.cuh"

namespace baton {

template <class Params>
cudaError_t enqueue_dispatch_chunks(const nvshmem_launch& l) {
  cudaError_t status = cudaErrorInvalidDeviceFunction;
  ep::per_rank_chunks::with_far_dispatch(
      *static_cast<const Params*>(l.params), l.tokens_are_given,
      [&]<class Kernel>() { status = enqueue_beyond<Kernel, Params>(l, l.grid.shared_bytes); });
  return status;
}

template <class Params>
cudaError_t enqueue_combine_chunks(const nvshmem_launch& l) {
  cudaError_t status = cudaErrorInvalidDeviceFunction;
  ep::per_rank_chunks::with_far_combine(*static_cast<const Params*>(l.params), [&]<class Kernel>() {
    status = enqueue_beyond<Kernel, Params>(l, l.grid.shared_bytes);
  });
  return status;
}

template <template <class> class Reach>
cudaError_t enqueue_chunks_of(const nvshmem_launch& l) {
  using namespace ep::per_rank_chunks;
  using kernel = nvshmem_launch::kernel;
  switch (l.what) {
    case kernel::dispatch_chunks:
      return enqueue_dispatch_chunks<Reach<any_dispatch_params>>(l);
    case kernel::combine_chunks_to_fp32:
      return enqueue_combine_chunks<Reach<any_combine_params<ep::store_fp32>>>(l);
    case kernel::combine_chunks_to_bf16:
      return enqueue_combine_chunks<Reach<any_combine_params<ep::store_bf16>>>(l);
    default:
      return cudaErrorInvalidDeviceFunction;
  }
}

}  // namespace baton
