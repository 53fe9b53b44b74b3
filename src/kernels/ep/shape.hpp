#pragma once
// The sizes of one communicator, in every layout: one constexpr description for host and kernels.
#include <cstddef>
#include <cstdint>

#include "base/math.hpp"
#include "baton/received_tokens.hpp"

namespace baton::ep {

inline constexpr int max_ranks = 32;      // in all
inline constexpr int max_near_ranks = 8;  // of a p2p group
inline constexpr int max_experts = 1024;
inline constexpr int max_top_k = 32;
inline constexpr int max_blocks = 1024;  // of a kernel
inline constexpr int max_hidden = 65536;
inline constexpr int max_tokens_per_rank = 65536;

/// An expert as its owner knows it.
struct expert_home {
  int rank;
  int local;
};

/// Where received tokens lie: ep_rows, and by whom they are held.
enum class row_storage : std::uint8_t {
  of_experts,  // in rows of their experts
  of_tokens,   // in a row each, in the rank's own memory
  in_window,   // in a row each, where they arrive
};

/// Payload for which a message has a byte of scales; of a format without scales, anything.
constexpr int payload_of_scale_byte(const format_facts& f) {
  return f.block == 0 ? 32 : f.row_bytes(f.block) / f.scale_bytes;
}

/// How many rows an expert takes of those there are: up to a multiple of an alignment, or as many as each has places of its own.
/// One code for both: numbering rows is what everybody waits for.
struct rows_taken {
  int kept, added, mask;
  constexpr int by(int rows) const { return ((rows & kept) + added) & mask; }
};

/// Run-time sizes, the same on every rank but for `rank`.
struct shape {
  int num_experts = 0;
  int num_ranks = 1;
  int rank = 0;
  int top_k = 0;
  int hidden = 0;
  int max_tokens = 0;
  token_format format = token_format::bf16;
  bool tiled_scales = false;
  std::uint8_t least_alignment = 0;  // ep_config::row_alignment
  row_storage rows = row_storage::of_experts;
  bool fp8_sums = false;      // ep_config::combine_format is blockwise_fp8
  bool late_weights = false;  // ep_config::weights_at_combine
  int rows_of_expert = 0;     // ep_config::rows_of_expert
  format_facts facts = facts_of(format);

  constexpr int max_local_experts() const { return ceil_div(num_experts, num_ranks); }
  /// Pairs (local expert, rank) are numbered local * num_ranks + rank; with padding, this many.
  constexpr int num_pairs() const { return max_local_experts() * num_ranks; }
  constexpr int num_local_experts(int of_rank) const {
    return num_experts / num_ranks + (of_rank < num_experts % num_ranks ? 1 : 0);
  }
  constexpr int first_expert(int of_rank) const {
    return of_rank * (num_experts / num_ranks) + smaller(of_rank, num_experts % num_ranks);
  }
  /// Of the first ranks, and of what is behind the last one.
  template <int n>
  constexpr void list_first_experts(int (&of)[n]) const {
    for (int r = 0; r < n; ++r) of[r] = r < num_ranks ? first_expert(r) : num_experts;
  }
  constexpr expert_home home(int expert) const {
    const int small = num_experts / num_ranks, larger_ranks = num_experts % num_ranks;
    const int split = larger_ranks * (small + 1);
    if (expert < split) return {expert / (small + 1), expert % (small + 1)};
    return {larger_ranks + (expert - split) / small, (expert - split) % small};
  }

  constexpr bool is_fp8() const { return format == token_format::blockwise_fp8; }
  constexpr int payload_bytes() const { return facts.row_bytes(hidden); }
  constexpr int scale_blocks() const { return facts.row_scales(hidden); }
  constexpr int scale_bytes() const { return scale_blocks() * facts.scale_bytes; }
  /// payload | scales, padded to 16 | trailer: of a message source_info
  constexpr int trailer_offset() const { return payload_bytes() + align_up(scale_bytes(), 16); }
  constexpr int message_bytes() const { return trailer_offset() + static_cast<int>(sizeof(source_info)); }
  constexpr int combine_bytes() const { return 2 * hidden; }
  /// Of what layout per_rank sends back.
  constexpr token_format sum_format() const {
    return fp8_sums ? token_format::blockwise_fp8 : token_format::bf16;
  }

  /// A token's row where each has one: its trailer is router weights, padded to 16.
  constexpr int token_row_bytes() const { return trailer_offset() + align_up(4 * top_k, 16); }
  constexpr bool by_token() const { return rows != row_storage::of_experts; }

  constexpr scale_layout scales_layout() const {
    return by_token()     ? scale_layout::row_major
           : is_fp8()     ? scale_layout::column_major
           : tiled_scales ? scale_layout::tiled_128x4
                          : scale_layout::row_major;
  }
  /// Where scales of received rows lie.
  constexpr scale_places received_scales() const { return {scales_layout(), max_rows(), scale_blocks()}; }

  /// First rows of experts are multiples of this, so that columns of scales start on 16 bytes, and tiles are of one expert.
  constexpr int row_alignment() const {
    return larger<int>(least_alignment, is_fp8() ? 4 : tiled_scales ? 128 : 1);
  }
  constexpr rows_taken taken() const {
    if (rows_of_expert > 0) return {0, rows_of_expert, ~0};
    return {~0, row_alignment() - 1, -row_alignment()};
  }
  /// A rank sends at most max_tokens rows to one expert and max_tokens * top_k in all.
  constexpr int max_rows_of_rank() const { return max_tokens * smaller(top_k, max_local_experts()); }
  /// Each expert that has rows may end in padding; whole multiples of the alignment in all.
  constexpr int max_rows() const {
    if (rows_of_expert > 0) return rows_of_expert * max_local_experts();
    const int rows = num_ranks * max_rows_of_rank(), padded = smaller(rows, max_local_experts());
    return (rows + padded * (row_alignment() - 1)) / row_alignment() * row_alignment();
  }
};

/// What the kernels find that only the device can see; see expert_parallel::check().
struct device_errors {
  std::uint64_t first_bad_id;  // (position in topk_idx) << 32 | id; none_found if there is none
  static constexpr std::uint64_t none_found = ~std::uint64_t{0};
};

}  // namespace baton::ep
