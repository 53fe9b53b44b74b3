#pragma once
// One rank's end of a communicator of layout per_rank whose tokens travel in chunks, as per_rank/endpoint.hpp is of lines.
#include "kernels/ep/per_rank/endpoint.hpp"
#include "kernels/ep/per_rank_chunks/params.hpp"

namespace baton::ep::per_rank_chunks {

using per_rank::combine_input;
using per_rank::round_input;

/// The first part of its local_cells is that of lines, so that what lines leave lies in the same places.
struct endpoint : per_rank::endpoint {
  chunk_settings settings{};
  int p2p_group_size = max_near_ranks;  // whom stores reach
  bool forwards = false;                // two levels, where some ranks are beyond the group

  /// `has_many_blocks` is said of all ranks.
  static endpoint of(const shape& s, bool has_many_blocks = false) {
    return {{s, {}}, settings_for(s, has_many_blocks)};
  }
  cells window_cells() const { return cells{s, settings}; }
  std::size_t window_bytes() const { return late_weights::window_bytes(s, window_cells().bytes); }
  late_weights::params weights(const per_rank::late_weights_input& in) const {
    late_weights::params p = weights_behind(window_cells().bytes, in);
    p.entries_follow = false;
    return p;
  }

  bool goes_beyond_group() const { return p2p_group_size < s.num_ranks; }
  bool has_two_levels() const { return forwards && goes_beyond_group(); }
  far_reach far() const {
    far_reach all{far_cells{s, window_cells()},
                  p2p_group::of(s.rank, p2p_group_size, s.num_ranks),
                  rank_lanes::of(s.num_ranks),
                  windows,
                  {}};
    s.list_first_experts(all.first_expert);
    return all;
  }
  /// The same parameters for kernels that put.
  template <class Params>
  far_params<Params> with_far(const near_params<Params>& p) const {
    return {p, far()};
  }

  template <class Params>
  two_level_params<Params> with_two_levels(const near_params<Params>& p) const {
    const group_local_cells at{s, settings, p2p_group_size};
    return {with_far(p),
            {group_cells{s, window_cells(), p2p_group_size}, divider{p2p_group_size},
             reinterpret_cast<std::uint32_t*>(local + at.wanted),
             reinterpret_cast<float*>(local + at.group_own_sums)}};
  }

  template <class T>
  T* own(std::size_t local_cells::*offset) const {
    return reinterpret_cast<T*>(local + local_cells{s, settings}.*offset);
  }

  /// By token, rows are the window's, of both rounds: what a captured graph was told holds in every replay.
  received_tokens received() const {
    received_tokens r = per_rank::endpoint::received();
    if (s.rows != row_storage::in_window) return r;
    const std::byte* first = windows.at[s.rank] + cells{s, settings}.tokens;
    r.tokens = first;
    r.scales = s.scale_blocks() > 0 ? first + s.payload_bytes() : nullptr;
    r.max_token_rows = 2 * s.num_ranks * s.max_tokens;
    return r;
  }

  dispatch_params dispatch(const round_input& in, const block_roles& roles, bool receives) const {
    dispatch_params p{{{s, cells{s, settings}}}};
    fill(p, in, receives);
    p.roles = roles;
    p.choice_experts = own<std::uint16_t>(&local_cells::choice_experts);
    p.tile_words = own<std::uint64_t>(&local_cells::tile_words);
    p.tile_bits = own<std::uint32_t>(&local_cells::tile_bits);
    p.tile_counts = own<std::uint32_t>(&local_cells::tile_counts);
    p.tile_rows = own<std::int32_t>(&local_cells::tile_rows);
    p.taken = own<taken_of_all>(&local_cells::taken);
    return p;
  }

  template <class Output>
  combine_params<Output> combine(const combine_input& in, const block_roles& roles, bool receives,
                                 const Output& output, const team_roles& teams = {}) const {
    combine_params<Output> p{{{s, cells{s, settings}}}};
    fill(p, in, receives);
    p.roles = roles;
    p.teams = teams;
    p.taken = own<taken_of_all>(&local_cells::taken);
    p.output = output;
    return p;
  }
};

}  // namespace baton::ep::per_rank_chunks
