#pragma once
// The counters through which the blocks of one device agree with each other: one array of int32, documented
// regions, one description below. All of it restores itself: whoever uses a cell last puts it back to 0.
//
//   n = expert slots (experts rounded up to a multiple of the ranks), R = ranks, L = n / R
//
//   kernel            words             cells, and who uses them
//   dispatch_async    [0, n)            reserved: slots handed out per expert. Stays 0, as slots are prefix sums, unless
//                                       ranks are beyond the p2p group: rank completion of all     (completion.hpp)
//                     [n, 2n)           finished: units of expert e's messages written      (completion.hpp)
//                     [2n, 2n + 8)      rank completion: finished experts of rank d         (completion.hpp)
//   dispatch_wait,    A [0, 2n)         pair i = local expert * R + rank: end row, row count
//   combine_async     B [2n, 3n)        pair i: rows of ranks 0..r of the expert (inclusive prefix sum)
//   (shared)          C [3n, 4n)        work: C[d] = units sent back to rank d              (completion.hpp)
//                     D 4n              blocks that have left dispatch_wait                 (gate.hpp)
//                     E 4n + 1          row offsets are ready                               (gate.hpp)
//                     F 4n + 2          send_buf_ready, for a fused shared expert; stays 0
//                     G 4n + 3          shared_expert_started, likewise
//   combine_wait      [0]               all arrivals seen                                   (gate.hpp)
//                     [1]               blocks that have left combine_wait                  (gate.hpp)
//                     [2, 2n)           stay 0: one gate serves any number of blocks
//
// Sizes, regions, and that dispatch_wait shares with combine_async, are those of Mojo's EPLocalSyncCounters.
// A and B are rewritten by every dispatch_wait before anybody reads them: they need no restoring.
#include <cstdint>

#include "base/macros.hpp"
#include "exec/site.hpp"

namespace baton {

inline constexpr int max_gpus_per_node = 8;

/// Where blocks wait at the gates of regions E and [0].
struct ep_gate_sites {
  static consteval site offsets_ready() { return "dispatch.offsets_ready"; }
  static consteval site combine_ready() { return "combine.ready"; }
};

/// A trivially copyable handle, passed to kernels by value.
struct ep_local_sync_counters {
  std::int32_t* words = nullptr;
  int num_expert_slots = 0;

  static constexpr int dispatch_async_size(int n) { return 2 * n + max_gpus_per_node; }
  static constexpr int dispatch_wait_size(int n) { return 4 * n + 4; }
  static constexpr int combine_async_size(int n) { return dispatch_wait_size(n); }
  static constexpr int combine_wait_size(int n) { return 2 * n < 2 ? 2 : 2 * n; }
  static constexpr int total_size(int n) {
    return dispatch_async_size(n) + dispatch_wait_size(n) + combine_wait_size(n);
  }

  constexpr std::int32_t* dispatch_async_ptr() const { return words; }
  constexpr std::int32_t* dispatch_wait_ptr() const { return words + dispatch_async_size(num_expert_slots); }
  constexpr std::int32_t* combine_async_ptr() const { return dispatch_wait_ptr(); }
  constexpr std::int32_t* combine_wait_ptr() const {
    return dispatch_wait_ptr() + dispatch_wait_size(num_expert_slots);
  }

  constexpr std::int32_t* reserved(int expert_slot) const { return dispatch_async_ptr() + expert_slot; }
  constexpr std::int32_t* finished(int expert_slot) const {
    return dispatch_async_ptr() + num_expert_slots + expert_slot;
  }
  constexpr std::int32_t* rank_completion(int rank) const {
    return dispatch_async_ptr() + 2 * num_expert_slots + rank;
  }
  constexpr std::int32_t* end_row(int pair) const { return dispatch_wait_ptr() + 2 * pair; }
  constexpr std::int32_t* row_count(int pair) const { return dispatch_wait_ptr() + 2 * pair + 1; }
  constexpr std::int32_t* rank_prefix(int pair) const {
    return dispatch_wait_ptr() + 2 * num_expert_slots + pair;
  }
  constexpr std::int32_t* work(int index) const { return dispatch_wait_ptr() + 3 * num_expert_slots + index; }
  constexpr std::int32_t* dispatch_departed() const { return dispatch_wait_ptr() + 4 * num_expert_slots; }
  constexpr std::int32_t* offsets_ready() const { return dispatch_departed() + 1; }
  constexpr std::int32_t* send_buf_ready() const { return dispatch_departed() + 2; }
  constexpr std::int32_t* shared_expert_started() const { return dispatch_departed() + 3; }
  constexpr std::int32_t* combine_ready() const { return combine_wait_ptr(); }
  constexpr std::int32_t* combine_departed() const { return combine_wait_ptr() + 1; }
};

}  // namespace baton
