#pragma once
// A flag for the producer and one for each reader: every cell has one writer, so signals are plain release stores.
//
//   cell                               starts   written by                   polled by
//   filled[tile, stage]                0        the producer: k + 1          readers, for k + 1
//   read[tile, stage, reader]          0        that reader: k + 1           the producer, for k, a lane each
//
// F1: the producer's release store, seen by each reader. F2: each reader's release store, seen by the producer's lane
// of that reader; the lanes meet when the wait ends.
#include "protocol/sync_strategy.hpp"

namespace baton {

template <ring_shape Shape>
class per_reader_flags : public sync_strategy_shape<Shape> {
  using base = sync_strategy_shape<Shape>;

 public:
  static constexpr int num_flags = base::total_tiles * (1 + base::reads_per_warp_block);
  static constexpr std::size_t shared_bytes = 4u * num_flags;

  BATON_FN explicit per_reader_flags(std::byte* memory)
      : filled_{reinterpret_cast<std::uint32_t*>(memory)}, read_{filled_ + base::total_tiles} {}

  template <exec_context X>
  BATON_FN void init(X& x) const {
    ring_detail::clear_counters(x, filled_, num_flags);
  }
  template <exec_context X>
  BATON_FN bool wait_producer_acquire(X& x, int tile_idx, int stage, std::int32_t phase,
                                      const wait_site& where) const {
    return ring_detail::await_counters(x, flags(tile_idx, stage), base::reads_per_warp_block, phase,
                                       where);  // F2
  }
  template <exec_context X>
  BATON_FN void signal_producer_release(X& x, int tile_idx, int stage, std::int32_t phase) const {
    raise(x, filled_ + base::get_staged_idx(tile_idx, stage), phase + 1);  // F1
  }
  template <exec_context X>
  BATON_FN bool wait_consumer_acquire(X& x, int tile_idx, int stage, std::int32_t phase,
                                      const wait_site& where) const {
    return ring_detail::await_counters(x, filled_ + base::get_staged_idx(tile_idx, stage), 1, phase,
                                       where);  // F1
  }
  template <exec_context X>
  BATON_FN void signal_consumer_release(X& x, int tile_idx, int stage, std::int32_t phase, int reader) const {
    raise(x, flags(tile_idx, stage) + reader, phase);  // F2
  }
  static constexpr std::int32_t get_producer_phase_increment() { return 1; }
  static constexpr std::int32_t get_consumer_phase_increment() { return 1; }

 private:
  BATON_FN std::uint32_t* flags(int tile_idx, int stage) const {
    return read_ + base::get_staged_idx(tile_idx, stage) * base::reads_per_warp_block;
  }
  template <exec_context X>
  BATON_FN static void raise(X& x, std::uint32_t* flag, std::int32_t to) {
    x.template store<order::release, scope::block>(flag, static_cast<std::uint32_t>(to));
  }
  std::uint32_t* filled_;
  std::uint32_t* read_;
};

}  // namespace baton
