#pragma once
// Two counters a slot: producers write only producer counters, consumers only consumer counters.
//
//   cell                           starts   written by                        polled by
//   producer_counters[tile, stage] 0        the producer: +1 when filled      readers, for 1 + k W
//   consumer_counters[tile, stage] 0        each reader: +1 when it has read  the producer, for k R
//
//   lap k     producer waits consumer >= k R, fills, producer = k + 1;  readers wait producer >= k + 1, consumer += R
//
// F1: the producer's release add, seen by each reader. F2: the readers' release adds, one chain of read-modify-writes,
// seen by the producer.
#include "protocol/sync_strategy.hpp"

namespace baton {

template <ring_shape Shape>
class split_counter_sync : public sync_strategy_shape<Shape> {
  using base = sync_strategy_shape<Shape>;

 public:
  static constexpr std::size_t shared_bytes = 8u * base::total_tiles;

  BATON_FN explicit split_counter_sync(std::byte* memory)
      : producer_counters_{reinterpret_cast<std::uint32_t*>(memory)},
        consumer_counters_{producer_counters_ + base::total_tiles} {}

  template <exec_context X>
  BATON_FN void init(X& x) const {
    ring_detail::clear_counters(x, producer_counters_, 2 * base::total_tiles);
  }
  template <exec_context X>
  BATON_FN bool wait_producer_acquire(X& x, int tile_idx, int stage, std::int32_t phase,
                                      const wait_site& where) const {
    auto* counter = consumer_counters_ + base::get_staged_idx(tile_idx, stage);
    return ring_detail::await_counters(x, counter, 1, phase, where);  // F2
  }
  template <exec_context X>
  BATON_FN void signal_producer_release(X& x, int tile_idx, int stage, std::int32_t) const {
    ring_detail::count_up(x, producer_counters_ + base::get_staged_idx(tile_idx, stage));  // F1
  }
  template <exec_context X>
  BATON_FN bool wait_consumer_acquire(X& x, int tile_idx, int stage, std::int32_t phase,
                                      const wait_site& where) const {
    auto* counter = producer_counters_ + base::get_staged_idx(tile_idx, stage);
    return ring_detail::await_counters(x, counter, 1, phase, where);  // F1
  }
  template <exec_context X>
  BATON_FN void signal_consumer_release(X& x, int tile_idx, int stage, std::int32_t, int) const {
    ring_detail::count_up(x, consumer_counters_ + base::get_staged_idx(tile_idx, stage));  // F2
  }
  static constexpr std::int32_t get_producer_phase_increment() { return base::reads_per_warp_block; }
  static constexpr std::int32_t get_consumer_phase_increment() { return base::writes_per_warp_block; }

 private:
  std::uint32_t* producer_counters_;
  std::uint32_t* consumer_counters_;
};

}  // namespace baton
