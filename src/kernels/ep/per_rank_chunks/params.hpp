#pragma once
// What the two kernels of layout per_rank read when tokens travel in chunks; passed by value. E, R, T, K, H as in shape.hpp.
#include "kernels/ep/per_rank/params.hpp"
#include "kernels/ep/per_rank_chunks/cells.hpp"
#include "protocol/peer_window.hpp"
#include "protocol/told_puts.hpp"

namespace baton::ep::per_rank_chunks {

/// A block's warps.
struct block_roles {
  int senders = 0;  // the first ones, which send before they receive; 0: only receives
  int others = 0;
  int stages = 1;   // pieces that a warp has room for
  int at_once = 1;  // chunks, up to rank_lanes::most_at_once, or sums that are told of with one fence
  bool takes_of_all =
      false;  // blocks take what is next of all to send, and of sums to receive: none has a share
  bool prefetches = false;  // combine asks the L2 for a part's rows before it sums them
  constexpr int warps() const { return senders + others; }
};

/// How a warp's lanes are dealt to the ranks of several chunks: of a chunk as many as a p2p group may have.
struct near_rank_lanes {
  static constexpr BATON_FN int rank_of(int lane) { return lane % max_near_ranks; }
  static constexpr BATON_FN int nth_of(int lane) { return lane / max_near_ranks; }
  static constexpr BATON_FN int first_of(int nth) { return nth * max_near_ranks; }
};
/// Of more ranks a power of two.
struct rank_lanes {
  int bits;
  static constexpr rank_lanes of(int num_ranks) {
    return {num_ranks <= max_near_ranks ? 3 : num_ranks <= 16 ? 4 : 5};
  }
  constexpr int most_at_once() const { return warp_lanes >> bits; }
  BATON_FN int rank_of(int lane) const { return lane & ((1 << bits) - 1); }
  BATON_FN int nth_of(int lane) const { return lane >> bits; }
  BATON_FN int first_of(int nth) const { return nth << bits; }
};

/// Wherever the ranks are. Where their windows are, and who has which expert, those say that are made of it.
struct any_dispatch_params : per_rank::dispatch_round<cells> {
  block_roles roles{};
  std::uint16_t* choice_experts{};
  std::uint64_t* tile_words{};
  std::uint32_t* tile_bits{};
  std::uint32_t* tile_counts{};  // four a word
  std::int32_t* tile_rows{};
  taken_of_all* taken{};

  BATON_FN any_ids ids() const { return ids_of_any_kind(); }
  BATON_FN int num_ranks() const { return s.num_ranks; }
};

template <class Output>
struct any_combine_params : per_rank::combine_round<cells> {
  block_roles roles{};
  team_roles teams{};
  taken_of_all* taken{};
  Output output{};
};

/// All ranks are in the p2p group.
template <class Params>
struct near_params : Params {
  static constexpr bool goes_by_put = false, has_two_levels = false;
  using one_level = near_params;  // what is read where levels are nothing to it: compiled once

  BATON_FN std::byte* window_of(int rank) const { return this->windows.at[rank]; }
  BATON_FN int first_expert(int rank) const { return this->window.first_expert[rank]; }
  static constexpr BATON_FN near_rank_lanes of_lanes() { return {}; }
};
using dispatch_params = near_params<any_dispatch_params>;
template <class Output>
using combine_params = near_params<any_combine_params<Output>>;

/// Some ranks are beyond the p2p group, of which there may be more than a group has.
struct far_reach {
  far_cells cells;
  p2p_group near;
  rank_lanes lanes;
  all_ranks_array<std::byte> windows;
  int first_expert[max_ranks + 1];  // of each rank, and behind the last
  BATON_FN std::uint32_t near_ranks() const { return (2u << (near.end - 1)) - (1u << near.first); }
  BATON_FN std::uint32_t far_ranks(int num_ranks) const {
    return ((2u << (num_ranks - 1)) - 1) & ~near_ranks();
  }
};

template <class Params>
struct far_params : Params {
  static constexpr bool goes_by_put = true, has_two_levels = false;
  using one_level = far_params;
  far_reach far;

  BATON_FN std::byte* window_of(int rank) const { return far.windows.at[rank]; }
  BATON_FN int first_expert(int rank) const { return far.first_expert[rank]; }
  BATON_FN rank_lanes of_lanes() const { return far.lanes; }
};

/// And with two levels (two_levels.hpp).
struct group_reach {
  group_cells cells;
  divider by_size;  // of a group
  std::uint32_t* wanted;
  float* own_sums;
};

template <class Params>
struct two_level_params : far_params<Params> {
  static constexpr bool has_two_levels = true;
  group_reach groups;

  BATON_FN int group_size() const { return this->far.near.end - this->far.near.first; }
  BATON_FN int group_of(int rank) const { return groups.by_size.quotient(rank); }
  /// The rank of `group` that has the place of `rank` in its own.
  BATON_FN int counterpart(int rank, int group) const {
    return rank + (group - group_of(rank)) * group_size();
  }
  BATON_FN int forwarder_here(int source) const { return counterpart(source, group_of(this->s.rank)); }
  /// Of a token of a source that this rank forwards for: its number among those.
  BATON_FN std::int64_t forwarded(int source, int token) const {
    return static_cast<std::int64_t>(group_of(source)) * this->s.max_tokens + token;
  }
};

}  // namespace baton::ep::per_rank_chunks
