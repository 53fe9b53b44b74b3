// The kernels of layout per_rank in chunks that put to each rank beyond the p2p group.
#include "nvshmem/enqueue_chunks.cuh"

namespace baton {

cudaError_t enqueue_chunks(const nvshmem_launch& l) {
  return enqueue_chunks_of<ep::per_rank_chunks::far_params>(l);
}

}  // namespace baton
