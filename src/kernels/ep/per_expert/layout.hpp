#pragma once
// Where the bytes of layout per_expert lie, and what its kernels count in: one constexpr description for host and kernels.
#include "exec/site.hpp"
#include "kernels/ep/received.hpp"
#include "protocol/ep_local_sync_counters.hpp"
#include "protocol/peer_window.hpp"

namespace baton::ep {

static_assert(max_ranks <= most_peers && max_near_ranks <= most_near_peers);

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

/// Offsets of the send buffers, which lie behind a rank's window if some ranks are beyond the p2p group. A message for each
/// choice, as messages of one token differ in their seals.
struct send_layout {
  std::size_t dispatch;  // u8 [max_tokens, top_k, message_bytes]
  std::size_t combine;   // u8 [max_rows, combine_bytes]
  std::size_t bytes;

  constexpr explicit send_layout(const shape& s) {
    const auto of = [](int places, int each) {
      return static_cast<std::size_t>(places) * static_cast<std::size_t>(each);
    };
    dispatch = align_up(window_layout{s}.bytes, std::size_t{16});
    combine = dispatch + of(s.max_tokens * s.top_k, s.message_bytes());
    bytes = combine + of(s.max_rows(), s.combine_bytes());
  }
};

/// Rounds completed; advanced by the kernels, so that a replayed graph goes on counting.
struct round_counters {
  std::uint32_t dispatch;
  std::uint32_t combine;
};

/// Offsets into a rank's own memory.
struct local_layout : local_plan, received_layout {
  std::size_t counters;     // i32 [ep_local_sync_counters::total_size(num_pairs)]
  std::size_t rounds;       // round_counters
  std::size_t errors;       // device_errors
  std::size_t send_slots;   // i32 [max_tokens, top_k]: slot at the expert, -1: not sent
  std::size_t sent_counts;  // i32 [num_experts]: copies sent to each expert in this round

  constexpr explicit local_layout(const shape& s) : received_layout{*this, s} {
    counters = take(4 * static_cast<std::size_t>(ep_local_sync_counters::total_size(s.num_pairs())));
    rounds = take(sizeof(round_counters));
    errors = take(sizeof(device_errors));
    send_slots = take(4 * static_cast<std::size_t>(s.max_tokens) * static_cast<std::size_t>(s.top_k));
    sent_counts = take(4 * static_cast<std::size_t>(s.num_experts));
  }
};

/// What source_info::seal has to be: of no other token, choice, rank and expert within the limits, nor of another
/// round, for each of them alone. `most_ranks` are those that the kernels of all ranks know.
template <int most_ranks>
constexpr std::uint32_t seal_of(const source_info& source, int expert, std::uint32_t epoch) {
  const auto token = static_cast<std::uint32_t>(source.token),
             topk_slot = static_cast<std::uint32_t>(source.topk_slot),
             rank = static_cast<std::uint32_t>(source.rank);
  const std::uint32_t place = (token * max_top_k + topk_slot) * most_ranks + rank;
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
