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
  int taken_each = 0;  // combine_senders's
  int threads() const { return (senders + receivers) * warp_lanes; }
};

/// One half of a fused call has the other's warps too.
inline role_grid for_half(half which, role_grid g) {
  if (which == half::receive) return {g.blocks, 0, g.senders + g.receivers};
  return g;
}

/// Blocks grow with the root of the units; each takes a warp for each of its units, up to 8, to send, and at least 8 to
/// find rows. Among more ranks there is more to receive: more blocks, and fewer of their warps send. Measured on 2 H200 and on 4
/// H100 (docs/decisions/0017).
inline role_grid grid_of_dispatch(const endpoint& end, const launch_limits& limits, int num_tokens) {
  if (const int warps = limits.threads / warp_lanes; warps > 0) {
    const int senders = larger(1, warps / 3);
    return for_half(limits.which, {limits.blocks, senders, warps - senders});
  }
  const int units = larger(1, num_tokens * cells{end.s}.token_units);
  const bool are_many = end.s.num_ranks > 2;
  const int wanted = static_cast<int>((are_many ? 9.0 : 6.0) * std::sqrt(static_cast<double>(units)));
  const int blocks = smaller(limits.blocks, larger(8, wanted));
  const int senders = smaller(are_many ? 5 : 8, ceil_div(units, blocks));
  const int most_receivers = are_many ? 15 : max_warps - senders;
  return for_half(limits.which,
                  {blocks, senders, smaller(most_receivers, 8 + senders * (end.s.num_ranks - 1))});
}

/// The most warps of a block of combine that send, and the most that receive: more receive, since they sum up this rank's own
/// rows too and wait. Of two ranks there are half as many again, of which more send where there is much to send. Measured
/// (docs/decisions/0017).
inline role_grid most_of_combine(const shape& s, int sent_of_block) {
  if (s.fp8_sums) return {0, 8, max_combine_warps - 8};
  if (s.num_ranks != 2) return {0, 8, combine_warps_of(s.num_ranks) - 8};
  return {0, sent_of_block > 40 ? 12 : 10, 20};
}

/// How many units a sender takes at once. Links and memory do not serve warps alike, so that of shares the last ends late; but
/// each take is an access of all warps to one word, and a sender of few units has nothing to make up for. Measured on 4 H100; of
/// two ranks shares are quicker (docs/decisions/0017).
inline int units_taken_each(const endpoint& end, int units_sent, int senders) {
  if (end.s.num_ranks <= 2 || units_sent < 4 * senders) return 0;
  return units_sent < 13 * senders ? 1 : 2;
}

/// A warp for each unit to send and to receive, of ranks that have as many tokens as this one.
inline role_grid grid_of_combine(const endpoint& end, const launch_limits& limits, int num_tokens) {
  const int units = larger(1, num_tokens * cells{end.s}.sum_units);
  const int sent = units * larger(1, end.s.num_ranks - 1);
  role_grid g{smaller(limits.blocks, sent), 1, 1};
  if (const int warps = smaller(limits.threads / warp_lanes, max_combine_warps); warps > 0) {
    g = {limits.blocks, warps / 2, warps - warps / 2};
  } else {
    const int sent_of_block = ceil_div(sent, g.blocks);
    const role_grid most = most_of_combine(end.s, sent_of_block);
    g.senders = smaller(most.senders, sent_of_block);
    g.receivers = smaller(most.receivers, ceil_div(units, g.blocks));
  }
  g = limits.which == half::send ? role_grid{g.blocks, g.senders + g.receivers, 0}
                                 : for_half(limits.which, g);
  g.taken_each = units_taken_each(end, sent, g.blocks * g.senders);
  return g;
}

}  // namespace baton::ep::per_rank
