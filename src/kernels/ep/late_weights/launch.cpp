#include "kernels/ep/late_weights/launch.hpp"

#include "kernels/ep/late_weights/kernel.hpp"
#include "kernels/launch.hpp"

namespace baton::ep::late_weights {

/// A warp for each 32 choices of each rank, of ranks that have as many tokens as this one, or as few as cost nothing.
void launch(const world& w, const per_rank::launch_limits& limits, const params& p, stream_ref stream) {
  constexpr int few = 128, most_threads = kernel::bounds.max_threads;
  const int threads = limits.threads > 0 ? smaller(limits.threads, most_threads) : most_threads,
            tokens = larger(p.num_tokens, smaller(p.s.max_tokens, few)),
            warps = ceil_div(tokens * p.s.top_k, warp_lanes) * p.s.num_ranks;
  baton::launch<kernel>(w,
                        {.blocks = smaller(limits.blocks, ceil_div(warps, threads / warp_lanes)),
                         .threads = threads,
                         .begins_early = limits.begin_early(),
                         .slot = limits.slot,
                         .only_loads = limits.only_loads},
                        p, stream);
}

}  // namespace baton::ep::late_weights
