#pragma once
// How many blocks and warps a kernel that moves chunks takes, and how many stages its warps have room for.
#include "kernels/ep/per_rank_chunks/launch.hpp"
#include "kernels/ep/per_rank_chunks/plan.hpp"
#include "kernels/ep/per_rank_chunks/team_plan.hpp"

namespace baton::ep::per_rank_chunks {

struct chunk_grid {
  int blocks;
  block_roles roles;
  int threads() const { return roles.warps() * warp_lanes; }
};

/// Every chunk of a rank can have a block of its own; each waits for all others', so that more are in the way.
inline int blocks_for(const endpoint& end, const launch_limits& limits) {
  return smaller(limits.blocks, end.s.num_ranks * cells{end.s, end.settings}.chunks);
}

/// `senders` of `warps`, or that part of as many as the caller has said, up to `most`.
inline block_roles roles_of(const launch_limits& limits, int senders, int warps, int most) {
  const int wanted = smaller(limits.threads / warp_lanes, most);
  if (wanted > 0) senders = larger(1, wanted * senders / warps), warps = wanted;
  return {senders, warps - senders, 1};
}

/// So few that they cast and sum more slowly than links take it: more of their warps send first.
constexpr bool is_few(int blocks) {
  return blocks <= 64;
}

/// Fewer still: what they send waits for each other at a fence, more than others for it.
constexpr bool is_fewest(int blocks) {
  return blocks <= 32;
}

/// So few that their loads do not keep memory busy: it is asked for whole rows at once. With more blocks what is asked for is
/// more than the L2 holds until it is loaded.
constexpr bool is_prefetched(int blocks) {
  return blocks <= 24;
}

inline bool takes_of_all(const endpoint& end, bool when_measured) {
  return end.settings.takes == taking::as_measured ? when_measured : end.settings.takes == taking::of_all;
}

/// One half of a fused call has the other's warps too: all index, or all send what there is beside ids.
inline chunk_grid grid_of_dispatch(const endpoint& end, const launch_limits& limits) {
  const cells window{end.s, end.settings};
  const chunk_settings& set = end.settings;
  const int blocks = blocks_for(end, limits);
  const bool takes_all = takes_of_all(end, is_fewest(blocks)),
             is_sending = end.s.by_token() && is_few(blocks) && !(takes_all && end.s.num_ranks > 2);
  block_roles roles = roles_of(limits, is_sending ? set.dispatch_warps * 7 / 8 : set.dispatch_senders,
                               set.dispatch_warps, max_warps);
  roles.stages = larger(1, set.dispatch_stages);
  const int together = set.told_at_once > 0 ? set.told_at_once : is_few(blocks) ? 4 : 1;
  roles.at_once = smaller(rank_lanes::of(end.s.num_ranks).most_at_once(), together);
  while (roles.stages > 1 && dispatch_plan(window, roles, end.has_two_levels()).bytes > most_shared_bytes)
    --roles.stages;
  if (limits.which == half::receive) roles = {0, roles.warps(), roles.stages, roles.at_once};
  roles.takes_of_all = takes_all;
  return {blocks, roles};
}

/// Measured on 2 and on 4 H100 (docs/decisions/0020).
inline int senders_of_combine(const endpoint& end, int blocks) {
  const int warps = end.settings.combine_warps;
  const bool is_pair = end.s.num_ranks <= 2;
  if (is_prefetched(blocks)) return is_pair ? warps * 3 / 4 : warps / 2;
  if (is_fewest(blocks)) return is_pair ? warps * 7 / 8 : warps * 9 / 16;
  if (is_few(blocks)) return warps * 3 / 4;
  return is_pair ? end.settings.combine_senders : end.settings.combine_senders * 3 / 4;
}

/// Sums that are told of with one fence: some where a warp of few blocks sends many, as others can wait for a few of many.
inline int sums_at_once(const endpoint& end, int blocks, int senders) {
  if (end.settings.sums_at_once > 0) return end.settings.sums_at_once;
  const int sums = end.s.max_tokens * cells{end.s, end.settings}.sum_parts * (end.s.num_ranks - 1);
  if (!is_fewest(blocks)) return 1;
  for (const int together : {8, 4})
    if (sums >= 3 * together * blocks * senders && (together == 4 || end.s.num_ranks > 2)) return together;
  return 1;
}

inline chunk_grid grid_of_combine(const endpoint& end, const launch_limits& limits) {
  const chunk_settings& set = end.settings;
  const int blocks = blocks_for(end, limits);
  block_roles roles = roles_of(limits, senders_of_combine(end, blocks), set.combine_warps, max_combine_warps);
  if (limits.which == half::receive) roles = {0, roles.warps()};
  if (limits.which == half::send) roles = {roles.warps(), 0};
  roles.at_once = sums_at_once(end, blocks, larger(1, roles.senders));
  roles.takes_of_all = takes_of_all(end, is_fewest(blocks) || end.s.num_ranks > 2);
  roles.prefetches = is_prefetched(blocks) && limits.which != half::receive;  // else rows are not there
  return {blocks, roles};
}

struct team_grid {
  int blocks;
  team_roles roles;
  int threads() const { return roles.warps(team_adders) * warp_lanes; }
};

/// Whether combine's warps work in teams: both halves at once, for many sums that travel in FP8, unless the caller has said how
/// many warps. Measured on 2 H200, and on 2 and 4 H100 (docs/decisions/0020, 0036).
inline bool is_in_teams(const endpoint& end, const launch_limits& limits) {
  if (!end.s.fp8_sums || limits.which != half::both || end.goes_beyond_group()) return false;
  const int ranks_of_token = larger(2, smaller(end.s.num_ranks, end.s.top_k));
  const bool are_many = end.s.max_tokens * ranks_of_token >= end.settings.team_sums;
  return end.settings.teams.teams > 0 || (are_many && !limits.threads_are_asked_for);
}

inline team_grid grid_of_teams(const endpoint& end, const launch_limits& limits) {
  const cells window{end.s, end.settings};
  team_roles roles{.teams = most_teams, .stages = most_team_stages, .ahead = 2};
  if (end.settings.teams.teams > 0) roles = end.settings.teams;
  while (roles.stages > 1 && team_plan{end.s, window, roles}.bytes > most_shared_bytes) --roles.stages;
  return {blocks_for(end, limits), roles};
}

}  // namespace baton::ep::per_rank_chunks
