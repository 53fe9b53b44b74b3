#pragma once
// What the two kernels of layout per_rank read; passed by value. E, R, T, K, H as in shape.hpp.
#include <type_traits>

#include "kernels/ep/params.hpp"
#include "kernels/ep/per_rank/cells.hpp"

namespace baton::ep::per_rank {

/// A kernel's parameters, with what the compiler knows: the format, in combine that of sums, and, if it is not 0, the number of
/// ranks, which is worth 1.5 us a round (docs/decisions/0017). Who reads this rank's ids knows more (sized); what does not is
/// compiled once for all kinds of ids.
template <class Params, int KnownRanks, token_format Format>
struct sized_round : Params {
  static constexpr token_format format = Format;
  static constexpr format_facts facts = facts_of(Format);
  static constexpr unit_room unit{Format};
  static constexpr bool has_scales = facts.block > 0;
  static constexpr int known_ranks = KnownRanks;
  static constexpr bool is_pair =
      KnownRanks == 2;  // there is one other rank: nothing to deal out among several

  BATON_FN int num_ranks() const { return KnownRanks > 0 ? KnownRanks : this->s.num_ranks; }
  BATON_FN int payload_bytes() const { return this->s.hidden * facts.value_bits / 8; }
  BATON_FN int scale_blocks() const { return has_scales ? this->s.hidden / larger(1, facts.block) : 0; }
  BATON_FN int scale_words() const {
    return facts.scale_bytes == 4 ? scale_blocks() : ceil_div(scale_blocks(), 4);
  }
};

/// And what ids are, unless they are any_ids. Combine does not depend on ids.
template <class Params, int KnownRanks, token_format Format = token_format::bf16, class Id = std::int32_t>
struct sized : sized_round<Params, KnownRanks, Format> {
  using without_ids = sized_round<Params, KnownRanks, Format>;

  BATON_FN auto ids() const {
    if constexpr (std::is_same_v<Id, any_ids>)
      return this->ids_of_any_kind();
    else
      return static_cast<const Id*>(this->topk_idx);
  }
};

/// What dispatch reads, however tokens travel; `Cells` say what a window holds.
template <class Cells>
struct dispatch_round {
  shape s;
  Cells window;
  bool receives{};
  peer_array<std::byte> windows{};
  const void* tokens{};         // [num_tokens, H]: bf16, or in the format
  const void* topk_idx{};       // [num_tokens, K]
  const float* topk_weights{};  // [num_tokens, K] or null: 1
  int num_tokens{};
  tensor_scales input_scales{};
  round_epochs* epochs{};
  device_errors* errors{};
  std::int32_t* token_counts{};
  std::uint32_t* rank_sets{};
  std::uint32_t* choices{};
  entry* entries{};
  std::byte* rows{};
  std::int32_t* token_rows{};  // [max_rows]; null: tokens lie by expert
  float* scales{};
  std::int32_t* row_offsets{};
  std::int32_t* row_counts{};
  std::int32_t* expert_ids{};
  source_info* sources{};
  row_reports reports{};
  bool has_wide_ids{};
  expert_map replicas{};

  BATON_FN any_ids ids_of_any_kind() const {
    topk_ids given;
    given.data = topk_idx;
    given.is_wide = has_wide_ids;
    return {given, replicas, window.by_top_k, s.num_experts, s.rank};
  }
};

/// What combine reads, however sums travel.
template <class Cells>
struct combine_round {
  shape s;
  Cells window;
  bool receives{};
  peer_array<std::byte> windows{};
  const bfloat16* expert_output{};  // [max_rows, H]
  int num_tokens{};
  round_epochs* epochs{};
  const std::int32_t* token_counts{};
  const std::uint32_t* rank_sets{};
  const std::uint32_t* choices{};
  const entry* entries{};
  float* own_sums{};     // [T, H]; used by kernels that do not both send and receive
  shared_rows shared{};  // [num_tokens, H]; of kernels that receive
};

template <class Cells>
struct dispatch_params_of : dispatch_round<Cells> {
  int senders{};                   // warps of a block: the first ones; 0: only receives
  int row_bytes{};                 // of `rows`, from one to the next
  int scale_row{}, scale_block{};  // of `scales`, from a row's to the next one's and from a block's
  std::uint32_t* units_taken{};

  BATON_FN std::byte* window_of(int rank) const { return this->windows.at[rank]; }
  BATON_FN int first_expert(int rank) const { return this->window.first_expert[rank]; }
};
using dispatch_params = dispatch_params_of<cells>;

template <class Output, class Cells = cells>
struct combine_params : combine_round<Cells> {
  int senders{};     // warps of a block; 0: only receives
  int taken_each{};  // units that a sender takes at once of what is next of all; 0: each has a share
  std::uint32_t* units_taken{};
  Output output{};
};

}  // namespace baton::ep::per_rank
