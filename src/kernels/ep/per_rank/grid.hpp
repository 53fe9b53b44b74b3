#pragma once
// How many blocks and warps a kernel of layout per_rank takes: as many as its units keep busy, and no more, since each
// block does the indexing for itself and each warp that polls is in the way of those that do not.
#include <cmath>

#include "kernels/ep/per_rank/launch.hpp"
#include "kernels/ep/per_rank/plan.hpp"

namespace baton::ep::per_rank {

struct dispatch_grid {
  int blocks;
  warp_roles roles;
  int receivers;
  int threads() const { return (roles.senders + roles.indexers + receivers) * warp_lanes; }
};

struct combine_grid {
  int blocks;
  int senders, receivers;
  int threads() const { return (senders + receivers) * warp_lanes; }
};

/// A block of `warps` warps is divided as evenly as it can be. Otherwise blocks grow with the root of the units, and each
/// takes a warp for each of its units, up to 8: measured on 2 H200 (docs/decisions).
inline dispatch_grid grid_of_dispatch(const endpoint& end, const launch_limits& limits, int num_tokens,
                                      half which) {
  const int units = larger(1, num_tokens * cells{end.s}.token_units);
  const int wanted = static_cast<int>(4.0 * std::sqrt(static_cast<double>(units)));
  const int blocks = smaller(limits.blocks, larger(8, wanted));
  dispatch_grid g{blocks, {1, 8}, 1};
  if (limits.threads > 0) {
    const int warps = limits.threads / warp_lanes;
    g.roles.indexers = larger(1, warps / 3);
    g.roles.senders = larger(1, (warps - g.roles.indexers) / 2);
    g.receivers = warps - g.roles.indexers - g.roles.senders;
  } else {
    g.roles.senders = smaller(8, ceil_div(units, blocks));
    g.receivers = smaller(max_warps - g.roles.indexers - g.roles.senders,
                          larger(1, g.roles.senders * (end.s.num_ranks - 1)));
  }
  if (which == half::send) {
    g.roles.senders += g.roles.indexers;
    g.roles.indexers = 0;
  } else if (which == half::receive) {
    g.receivers += g.roles.senders;
    g.roles.senders = 0;
  }
  return g;
}

inline combine_grid grid_of_combine(const endpoint& end, const launch_limits& limits, int num_tokens,
                                    half which) {
  const int units = larger(1, num_tokens * cells{end.s}.sum_units);
  int warps = limits.threads / warp_lanes;
  int blocks = limits.blocks;
  if (warps == 0) {
    blocks = smaller(blocks, ceil_div(units, 4));
    warps = 2 * larger(4, smaller(16, ceil_div(units, blocks)));
  }
  if (which == half::send) return {blocks, warps, 0};
  if (which == half::receive) return {blocks, 0, warps};
  return {blocks, warps / 2, warps - warps / 2};
}

}  // namespace baton::ep::per_rank
