#pragma once
// Sync strategies: how the two sides of a ring buffer (ring/ring_buffer.hpp) tell each other that a slot is filled or
// free. A ring has `stages` slots for each of its warp tiles; one warp fills a slot, `readers` warps read it.
//
//   strategy              cells                              a wait polls            who contends
//   single_counter_sync   1 counter a slot                   the counter             1 + R writers, 1 + R pollers
//   split_counter_sync    2 counters a slot                  the other side's one    1 or R writers, R or 1 pollers
//   per_reader_flags      1 flag a side and reader           1 flag, or R at once    1 writer each, no RMW
//   mbarrier_sync         2 mbarriers a slot                 suspends in hardware    the barrier counts
//
//   slot      event                      becomes   who             edge
//   free      wait_producer_acquire()    filling   its producer    acquires all reads of lap k - 1   (F2)
//   filling   signal_producer_release()  filled    its producer    releases the fill of lap k        (F1)
//   filled    wait_consumer_acquire()    in use    each reader     acquires the fill of lap k        (F1)
//   in use    signal_consumer_release()  in use    all but one     releases its reads of lap k       (F2)
//   in use    signal_consumer_release()  free      the last one    the same                          (F2)
//
// F1: a fill happens before every read of it.   F2: every read happens before the next fill of the slot.
// Both are release signals that an acquire wait sees, at block scope; the lanes of a warp meet before the signal and
// after the wait.
// Phases:   what a wait compares with. A producer's starts at 0 and grows by get_producer_phase_increment() a lap, a
//           consumer's starts at 1 and grows by get_consumer_phase_increment(). Counters never go back; they are
//           compared as differences, so they may wrap.
// Start:    cells as init() leaves them, after a sync_block: every slot free, lap 0.
// Progress: every fill is signalled once, every filled slot is released once by each reader, and no warp waits for a
//           fill that needs a read it would do later.
// Checked:  checks/ring_exploration.hpp has the bounds and the planted bugs.
//
// Source: seeds/003 (Mojo's SyncStrategy, SplitCounterSync): names, indices, phases. Orders, the bound on every wait and
// the last two strategies are ours.
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "exec/exec.hpp"

namespace baton {

/// A ring as its strategy sees it. Tiles of `warp_rows` rows stand in a stage of `block_rows`.
struct ring_shape {
  int stages = 2;
  int block_rows = 1;
  int warp_rows = 1;
  int readers = 1;  // warps that read each tile; the documents' reads_per_warp_block

  static constexpr int writes_per_warp_block = 1;
  constexpr int block_warps() const { return block_rows / warp_rows; }
  constexpr int total_tiles() const { return block_warps() * stages; }
  friend constexpr bool operator==(const ring_shape&, const ring_shape&) = default;
};

/// Null if a ring can have this shape, otherwise the first reason it cannot.
constexpr const char* why_not(const ring_shape& s) {
  if (s.stages < 1) return "stages: a ring needs a slot";
  if (s.warp_rows < 1 || s.block_rows < s.warp_rows || s.block_rows % s.warp_rows != 0)
    return "block_rows: not a multiple of warp_rows";
  if (s.readers < 1 || s.readers > warp_lanes) return "readers: not 1 to 32, one lane each";
  return nullptr;
}

/// What all strategies share: the documented names of a shape's parts.
template <ring_shape Shape>
struct sync_strategy_shape {
  static_assert(why_not(Shape) == nullptr);
  static constexpr ring_shape shape = Shape;
  static constexpr int pipeline_stages = Shape.stages;
  static constexpr int block_warps = Shape.block_warps();
  static constexpr int total_tiles = Shape.total_tiles();
  static constexpr int reads_per_warp_block = Shape.readers;
  static constexpr int writes_per_warp_block = Shape.writes_per_warp_block;

  /// The stage is the faster index.
  static constexpr int get_staged_idx(int tile_idx, int stage) { return tile_idx * pipeline_stages + stage; }
};

/// A strategy is a handle on its cells: trivially copyable, kept in registers. `init` is called by all warps of the
/// block and followed by sync_block; waits by a warp (false: gave up); signals by one lane, once the lanes of its warp
/// have met. `phase` is the one that the wait for this slot was given, `reader` the caller's number among the readers.
template <class S, class X>
concept sync_strategy = std::is_trivially_copyable_v<S> && exec_context<X> &&
    requires(X& x, S s, std::byte* memory, int tile, int stage, std::int32_t phase, int reader,
             wait_site where) {
  { S::shape } -> std::convertible_to<ring_shape>;
  { S::shared_bytes } -> std::convertible_to<std::size_t>;
  S{memory};
  s.init(x);
  { s.get_staged_idx(tile, stage) } -> std::same_as<int>;
  { s.wait_producer_acquire(x, tile, stage, phase, where) } -> std::same_as<bool>;
  s.signal_producer_release(x, tile, stage, phase);
  { s.wait_consumer_acquire(x, tile, stage, phase, where) } -> std::same_as<bool>;
  s.signal_consumer_release(x, tile, stage, phase, reader);
  { s.get_producer_phase_increment() } -> std::same_as<std::int32_t>;
  { s.get_consumer_phase_increment() } -> std::same_as<std::int32_t>;
};

namespace ring_detail {

/// Whether a counter has come to `phase`, also when it has wrapped.
constexpr bool reached(std::uint32_t counter, std::int32_t phase) {
  return static_cast<std::int32_t>(counter - static_cast<std::uint32_t>(phase)) >= 0;
}

/// The warp waits until the `count` counters from `first` on have come to `phase`: one polling lane each.
template <exec_context X>
BATON_FN bool await_counters(X& x, std::uint32_t* first, int count, std::int32_t phase, wait_site where) {
  typename X::template lanes<std::uint32_t*> words;
  typename X::template lanes<std::uint32_t> seen;
  x.each_lane([&](int lane) {
    words[lane] = lane < count ? first + lane : nullptr;
    seen[lane] = 0;
  });
  where.expected = static_cast<std::uint32_t>(phase);
  return x.template wait<order::acquire, scope::block>(
      words, [phase](int, std::uint32_t counter) { return reached(counter, phase); }, where, seen);
}

template <exec_context X>
BATON_FN void clear_counters(X& x, std::uint32_t* first, int count) {
  x.block_each(count, [&](int i) { x.write(first + i, 0u); });
}

template <exec_context X>
BATON_FN void count_up(X& x, std::uint32_t* counter) {
  x.template fetch_add<order::release, scope::block>(counter, 1u);
}

}  // namespace ring_detail
}  // namespace baton
