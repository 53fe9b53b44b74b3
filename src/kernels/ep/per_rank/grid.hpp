#pragma once
// How many blocks and warps a kernel of layout per_rank takes: as many as its units keep busy, and no more, since each
// block does the indexing for itself and each warp that polls is in the way of those that do not.
#include <cmath>

#include "kernels/ep/per_rank/launch.hpp"
#include "kernels/ep/per_rank/plan.hpp"

namespace baton::ep::per_rank {

/// Senders are a block's first warps.
struct role_grid {
  int blocks;
  int senders, receivers;
  int threads() const { return (senders + receivers) * warp_lanes; }
};

/// One half of a fused call has the other's warps too.
inline role_grid for_half(half which, role_grid g) {
  if (which == half::receive) return {g.blocks, 0, g.senders + g.receivers};
  return g;
}

/// Blocks grow with the root of the units; each takes a warp for each of its units, up to 8, to send, and at least 8 to
/// find rows. Measured on 2 H200 (docs/decisions/0017).
inline role_grid grid_of_dispatch(const endpoint& end, const launch_limits& limits, int num_tokens) {
  if (const int warps = limits.threads / warp_lanes; warps > 0) {
    const int senders = larger(1, warps / 3);
    return for_half(limits.which, {limits.blocks, senders, warps - senders});
  }
  const int units = larger(1, num_tokens * cells{end.s}.token_units);
  const int wanted = static_cast<int>(6.0 * std::sqrt(static_cast<double>(units)));
  const int blocks = smaller(limits.blocks, larger(8, wanted));
  const int senders = smaller(8, ceil_div(units, blocks));
  return for_half(
      limits.which,
      {blocks, senders, smaller(max_warps - senders, larger(8, 8 + senders * (end.s.num_ranks - 1)))});
}

/// A warp for each unit to send and to receive; where there are too many units, twice as many warps receive, since they sum up
/// this rank's own rows too and wait.
inline role_grid grid_of_combine(const endpoint& end, const launch_limits& limits, int num_tokens) {
  const int units = larger(1, num_tokens * cells{end.s}.sum_units);
  role_grid g{smaller(limits.blocks, units), 1, 1};
  if (const int warps = smaller(limits.threads / warp_lanes, max_combine_warps); warps > 0) {
    g = {limits.blocks, warps / 2, warps - warps / 2};
  } else {
    const int each = ceil_div(units, g.blocks);
    g.senders = smaller(8, each);
    g.receivers = smaller(max_combine_warps - 8, each);
  }
  if (limits.which == half::send) return {g.blocks, g.senders + g.receivers, 0};
  return for_half(limits.which, g);
}

}  // namespace baton::ep::per_rank
