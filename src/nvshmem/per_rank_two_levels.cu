// The kernels of layout per_rank in chunks that put to forwarders (two_levels.hpp).
#include "nvshmem/enqueue_chunks.cuh"

namespace baton {

cudaError_t enqueue_two_levels(const nvshmem_launch& l) {
  return enqueue_chunks_of<ep::per_rank_chunks::two_level_params>(l);
}

}  // namespace baton
