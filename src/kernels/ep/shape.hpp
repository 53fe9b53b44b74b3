#pragma once
// The sizes of one communicator and where its bytes lie: one constexpr description for host and kernels.
#include <cstddef>
#include <cstdint>

#include "base/math.hpp"
#include "baton/expert_parallel.hpp"
#include "exec/exec.hpp"
#include "protocol/ep_local_sync_counters.hpp"

namespace baton::ep {

inline constexpr int max_ranks = max_gpus_per_node;
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

/// Run-time sizes, the same on every rank but for `rank`.
struct shape {
  int num_experts = 0;
  int num_ranks = 1;
  int rank = 0;
  int top_k = 0;
  int hidden = 0;
  int max_tokens = 0;
  token_format format = token_format::bf16;

  constexpr int max_local_experts() const { return ceil_div(num_experts, num_ranks); }
  /// Pairs (local expert, rank) are numbered local * num_ranks + rank; with padding, this many.
  constexpr int num_pairs() const { return max_local_experts() * num_ranks; }
  constexpr int num_local_experts(int of_rank) const {
    return num_experts / num_ranks + (of_rank < num_experts % num_ranks ? 1 : 0);
  }
  constexpr int first_expert(int of_rank) const {
    return of_rank * (num_experts / num_ranks) + smaller(of_rank, num_experts % num_ranks);
  }
  constexpr expert_home home(int expert) const {
    const int small = num_experts / num_ranks, larger_ranks = num_experts % num_ranks;
    const int split = larger_ranks * (small + 1);
    if (expert < split) return {expert / (small + 1), expert % (small + 1)};
    return {larger_ranks + (expert - split) / small, (expert - split) % small};
  }

  constexpr bool is_fp8() const { return format == token_format::blockwise_fp8; }
  constexpr int payload_bytes() const { return is_fp8() ? hidden : 2 * hidden; }
  constexpr int scale_bytes() const { return is_fp8() ? hidden / 128 * 4 : 0; }
  /// payload | scales, padded to 16 | source_info
  constexpr int trailer_offset() const { return payload_bytes() + align_up(scale_bytes(), 16); }
  constexpr int message_bytes() const { return trailer_offset() + static_cast<int>(sizeof(source_info)); }
  constexpr int combine_bytes() const { return 2 * hidden; }

  /// First rows of experts are multiples of this, so that columns of scales start on 16 bytes.
  constexpr int row_alignment() const { return is_fp8() ? 4 : 1; }
  /// A rank sends at most max_tokens rows to one expert and max_tokens * top_k in all.
  constexpr int max_rows_of_rank() const { return max_tokens * smaller(top_k, max_local_experts()); }
  constexpr int max_rows() const {
    const int rows = num_ranks * max_rows_of_rank();
    return align_up(rows + max_local_experts() * (row_alignment() - 1), row_alignment());
  }
};

/// Offsets into a rank's symmetric window; peers write all of it.
struct window_layout {
  std::size_t dispatch_buffer;  // u8  [max_local_experts, num_ranks, max_tokens, message_bytes]
  std::size_t combine_buffer;   // u8  [max_tokens, top_k, combine_bytes]
  std::size_t dispatch_count;   // u64 [max_local_experts, num_ranks]
  std::size_t combine_count;    // u64 [max_local_experts, num_ranks]
  std::size_t bytes;

  constexpr explicit window_layout(const shape& s) {
    const auto pairs = static_cast<std::size_t>(s.num_pairs()),
               tokens = static_cast<std::size_t>(s.max_tokens);
    dispatch_buffer = 0;
    combine_buffer = pairs * tokens * static_cast<std::size_t>(s.message_bytes());
    dispatch_count = combine_buffer +
                     tokens * static_cast<std::size_t>(s.top_k) * static_cast<std::size_t>(s.combine_bytes());
    combine_count = dispatch_count + pairs * sizeof(std::uint64_t);
    bytes = combine_count + pairs * sizeof(std::uint64_t);
  }
};

/// What the kernels find that only the device can see; see expert_parallel::check().
struct device_errors {
  std::uint64_t first_bad_id;  // (position in topk_idx) << 32 | id; none_found if there is none
  static constexpr std::uint64_t none_found = ~std::uint64_t{0};
};

/// Rounds completed; advanced by the kernels, so that a replayed graph goes on counting.
struct round_counters {
  std::uint32_t dispatch;
  std::uint32_t combine;
};

/// Offsets into a rank's own memory, each on 256 bytes.
struct local_layout {
  std::size_t counters;     // i32 [ep_local_sync_counters::total_size(num_pairs)]
  std::size_t rounds;       // round_counters
  std::size_t errors;       // device_errors
  std::size_t send_slots;   // i32 [max_tokens, top_k]: slot at the expert, -1: not sent
  std::size_t sent_counts;  // i32 [num_experts]: copies sent to each expert in this round
  std::size_t tokens;       // u8  [max_rows, payload_bytes]
  std::size_t scales;       // f32 [hidden / 128, max_rows], fp8 only
  std::size_t row_offsets;  // i32 [max_local_experts + 1]
  std::size_t row_counts;   // i32 [max_local_experts]
  std::size_t expert_ids;   // i32 [max_local_experts]
  std::size_t sources;      // source_info [max_rows]
  std::size_t bytes;

  constexpr explicit local_layout(const shape& s) {
    const auto rows = static_cast<std::size_t>(s.max_rows());
    const auto local = static_cast<std::size_t>(s.max_local_experts());
    std::size_t at = 0;
    const auto take = [&at](std::size_t size) {
      const std::size_t here = at;
      at = align_up(at + size, std::size_t{256});
      return here;
    };
    counters = take(4 * static_cast<std::size_t>(ep_local_sync_counters::total_size(s.num_pairs())));
    rounds = take(sizeof(round_counters));
    errors = take(sizeof(device_errors));
    send_slots = take(4 * static_cast<std::size_t>(s.max_tokens) * static_cast<std::size_t>(s.top_k));
    sent_counts = take(4 * static_cast<std::size_t>(s.num_experts));
    tokens = take(rows * static_cast<std::size_t>(s.payload_bytes()));
    scales = take(rows * static_cast<std::size_t>(s.scale_bytes()));
    row_offsets = take(4 * (local + 1));
    row_counts = take(4 * local);
    expert_ids = take(4 * local);
    sources = take(rows * sizeof(source_info));
    bytes = at;
  }
};

/// What source_info::seal has to be: of no other token, choice, rank and expert within the limits, nor of another
/// round, for each of them alone.
constexpr std::uint32_t seal_of(const source_info& source, int expert, std::uint32_t epoch) {
  const auto token = static_cast<std::uint32_t>(source.token),
             topk_slot = static_cast<std::uint32_t>(source.topk_slot),
             rank = static_cast<std::uint32_t>(source.rank);
  const std::uint32_t place = (token * max_top_k + topk_slot) * max_ranks + rank;
  return epoch ^ place * 0x9e3779b1u ^ static_cast<std::uint32_t>(expert) * 0x85ebca77u;
}

/// Where kernels give up because of what they find.
struct refusal_sites {
  static consteval site rows() { return "dispatch.too_many_rows"; }
  static consteval site source() { return "combine.stale_source"; }
  static consteval site count() { return "combine.wrong_count"; }
  static consteval site slot() { return "combine.damaged_slot"; }
};

/// Units: what one warp does at a time, a token or a row, or some of its steps; a step is one warp-wide access.
struct row_units {
  int steps;    // of a row
  int per_row;  // units
  /// The steps of the nth unit of a row.
  constexpr int begin(int nth) const { return nth * steps / per_row; }
  constexpr int end(int nth) const { return (nth + 1) * steps / per_row; }
};

/// As many as keep `warps` warps busy with `rows` rows.
constexpr row_units units_for(int steps, int rows, int warps) {
  const int wanted = rows > 0 ? ceil_div(warps, rows) : 1;
  return {steps, larger(1, smaller(wanted, steps))};
}

/// The arrival word of `pair` and the message slots of `pair` in a window.
constexpr std::size_t message_offset(const shape& s, int pair, int slot) {
  return (static_cast<std::size_t>(pair) * static_cast<std::size_t>(s.max_tokens) +
          static_cast<std::size_t>(slot)) *
         static_cast<std::size_t>(s.message_bytes());
}
constexpr std::size_t reply_offset(const shape& s, int token, int topk_slot) {
  return (static_cast<std::size_t>(token) * static_cast<std::size_t>(s.top_k) +
          static_cast<std::size_t>(topk_slot)) *
         static_cast<std::size_t>(s.combine_bytes());
}

}  // namespace baton::ep
