// The kernel of a rank whose wait gave up, of every layout that goes beyond the p2p group.
#include "kernels/ep/lost_rank/kernel.hpp"
#include "nvshmem/entry_beyond.cuh"

namespace baton {

cudaError_t enqueue_lost_rank(const nvshmem_launch& l) {
  return enqueue_beyond<ep::lost_rank::kernel, ep::lost_rank::params>(l, 0);
}

}  // namespace baton
