#pragma once
// One counter a slot, written and polled by both sides.
//
//   cell                          starts   producer               each reader
//   counter[tile, stage]          0        +1 when it has filled  +1 when it has read
//
//   lap k     k (W + R)  -> fill ->  k (W + R) + 1  -> R reads ->  (k + 1)(W + R)          W = 1
//
// Producer waits for k (W + R), consumer for k (W + R) + 1. Neither can see a value of a later lap: a refill needs all
// R reads. F1, F2: the adds release; the chain of read-modify-writes on the one word carries every reader's release to
// the producer's acquire.
#include "protocol/sync_strategy.hpp"

namespace baton {

template <ring_shape Shape>
class single_counter_sync : public sync_strategy_shape<Shape> {
  using base = sync_strategy_shape<Shape>;

 public:
  static constexpr std::size_t shared_bytes = 4u * base::total_tiles;
  static constexpr std::int32_t phase_increment = base::writes_per_warp_block + base::reads_per_warp_block;

  BATON_FN explicit single_counter_sync(std::byte* memory)
      : counters_{reinterpret_cast<std::uint32_t*>(memory)} {}

  template <exec_context X>
  BATON_FN void init(X& x) const {
    ring_detail::clear_counters(x, counters_, base::total_tiles);
  }
  template <exec_context X>
  BATON_FN bool wait_producer_acquire(X& x, int tile_idx, int stage, std::int32_t phase,
                                      const wait_site& where) const {
    return ring_detail::await_counters(x, counter(tile_idx, stage), 1, phase, where);  // F2
  }
  template <exec_context X>
  BATON_FN void signal_producer_release(X& x, int tile_idx, int stage, std::int32_t) const {
    ring_detail::count_up(x, counter(tile_idx, stage));  // F1
  }
  template <exec_context X>
  BATON_FN bool wait_consumer_acquire(X& x, int tile_idx, int stage, std::int32_t phase,
                                      const wait_site& where) const {
    return ring_detail::await_counters(x, counter(tile_idx, stage), 1, phase, where);  // F1
  }
  template <exec_context X>
  BATON_FN void signal_consumer_release(X& x, int tile_idx, int stage, std::int32_t, int) const {
    ring_detail::count_up(x, counter(tile_idx, stage));  // F2
  }
  static constexpr std::int32_t get_producer_phase_increment() { return phase_increment; }
  static constexpr std::int32_t get_consumer_phase_increment() { return phase_increment; }

 private:
  BATON_FN std::uint32_t* counter(int tile_idx, int stage) const {
    return counters_ + base::get_staged_idx(tile_idx, stage);
  }
  std::uint32_t* counters_;
};

}  // namespace baton
