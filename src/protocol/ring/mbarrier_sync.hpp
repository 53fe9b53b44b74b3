#pragma once
// Two mbarriers a slot; waits suspend in hardware instead of polling. A view of the mbarrier pipeline
// (protocol/mbarrier_pipeline.hpp) that has its place from the ring: P1 and P2 are F1 and F2 here.
//
//   cell                  arrivals of a phase   a completed phase k means       awaited by
//   full[tile, stage]     1, the producer       lap k is filled          (F1)   readers, parity of k
//   empty[tile, stage]    R, one a reader       lap k is read by all     (F2)   the producer, for lap k - 1
//
// Phases count laps: a producer's is k, a consumer's k + 1. An untouched barrier counts the phase before its first as
// complete, so the producer's first acquire falls through. Parity is enough: nobody is a whole lap ahead of an
// unfinished phase.
#include "protocol/mbarrier_pipeline.hpp"
#include "protocol/sync_strategy.hpp"

namespace baton {

template <ring_shape Shape>
class mbarrier_sync : public sync_strategy_shape<Shape> {
  using base = sync_strategy_shape<Shape>;

 public:
  static constexpr std::size_t shared_bytes = 16u * base::total_tiles;

  BATON_FN explicit mbarrier_sync(std::byte* memory) : barriers_{reinterpret_cast<mbarrier*>(memory)} {}

  template <async_exec_context X>
  BATON_FN void init(X& x) const {
    x.block_each(2 * base::total_tiles, [&](int i) {
      x.mbarrier_init(barriers_.base + i, i < base::total_tiles ? 1 : base::reads_per_warp_block);
      x.fence_mbarrier_init();
    });
  }
  template <async_exec_context X>
  BATON_FN bool wait_producer_acquire(X& x, int tile_idx, int stage, std::int32_t phase,
                                      const wait_site& where) const {
    return at(tile_idx, stage, phase).await_free(x, 0, where);  // F2
  }
  template <async_exec_context X>
  BATON_FN void signal_producer_release(X& x, int tile_idx, int stage, std::int32_t phase) const {
    x.mbarrier_arrive(at(tile_idx, stage, phase).filled(), 1);  // F1
  }
  template <async_exec_context X>
  BATON_FN bool wait_consumer_acquire(X& x, int tile_idx, int stage, std::int32_t phase,
                                      const wait_site& where) const {
    return at(tile_idx, stage, phase).await_filled(x, 0, where);  // F1
  }
  template <async_exec_context X>
  BATON_FN void signal_consumer_release(X& x, int tile_idx, int stage, std::int32_t phase, int) const {
    x.mbarrier_arrive(at(tile_idx, stage, phase).free(), 1);  // F2
  }
  static constexpr std::int32_t get_producer_phase_increment() { return 1; }
  static constexpr std::int32_t get_consumer_phase_increment() { return 1; }

 private:
  using barriers = adjacent_barriers<base::total_tiles>;

  BATON_FN pipeline_end<base::total_tiles, barriers, scope::block> at(int tile_idx, int stage,
                                                                      std::int32_t phase) const {
    return {barriers_,
            {base::get_staged_idx(tile_idx, stage), !parity_of(static_cast<std::uint32_t>(phase))}};
  }

  barriers barriers_;
};

}  // namespace baton
