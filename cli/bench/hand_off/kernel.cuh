#pragma once
// Hand-offs and nothing else: one producer warp fills and `readers` warps read slots that hold no data, so that the time
// is the strategy's own. The clock runs from the first acquire until all warps are through.
#include <cstddef>
#include <cuda/ptx>
#include <utility>

#include "base/math.hpp"
#include "cli/bench/hand_off/params.hpp"
#include "device/async_gpu.cuh"
#include "exec/kernel.hpp"
#include "protocol/ring/ring_buffer.hpp"
#include "protocol/ring/strategies.hpp"

namespace baton::hand_off {

/// Plain template arguments: see base/constant.hpp.
template <ring_strategy Name, int stages>
struct hand_off_kernel {
  static constexpr kernel_bounds bounds{.max_threads = (1 + most_readers) * warp_lanes};

  template <async_exec_context X>
  static BATON_FN void run(X& x, const params& p) {
    choose(x, p, std::make_index_sequence<counts.size()>{});
  }

 private:
  template <std::size_t i>
  static constexpr int count = counts[i];

  template <class X, std::size_t... i>
  static BATON_FN void choose(X& x, const params& p, std::index_sequence<i...>) {
    ((p.readers == count<i> ? time<counts[i]>(x, p) : void()), ...);
  }

  template <int readers, class X>
  static BATON_FN void time(X& x, const params& p) {
    shared_plan block;
    using strategy = strategy_at<Name, stages, readers>;
    const ring_buffer<strategy> ring{x, take_ring<strategy>(block, 0)};
    ring.init(x);
    x.sync_block();
    const std::uint64_t start = cuda::ptx::get_sreg_clock64();
    const bool ended = x.warp() == 0 ? go_round(x, ring.producer(0), p.hand_offs)
                                     : go_round(x, ring.consumer(0, x.warp() - 1), p.hand_offs);
    x.sync_block();
    const std::uint64_t end = cuda::ptx::get_sreg_clock64();
    if (ended && x.warp() == 0) x.elect([&] { x.write(p.cycles + x.block(), end - start); });
  }

  template <class X, class View>
  static BATON_FN bool go_round(X& x, View view, int hand_offs) {
    for (int i = 0; i < hand_offs; ++i) {
      if (!view.acquire(x)) return false;
      view.release(x);
    }
    return true;
  }
};

}  // namespace baton::hand_off
