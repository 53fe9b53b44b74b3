#pragma once
// The only door from the host to the ring-buffered product, for both devices. No device code.
#include "baton/ring_gemm.hpp"
#include "kernels/ring_gemm/config.hpp"
#include "kernels/ring_gemm/params.hpp"

namespace baton::ring_gemm_kernels {

/// One of the compiled configurations, and the most blocks it may use.
struct launch_config {
  ring_strategy strategy = ring_strategy::mbarrier;
  bool large = true;
  int num_sms = 1;
};

/// f.template operator()<config>() with the configuration that these stand for.
template <class F>
void with_config(ring_strategy strategy, bool large, F f) {
  const auto sized = [&]<ring_strategy S>() {
    if (large)
      f.template operator()<large_tiles(S)>();
    else
      f.template operator()<small_tiles(S)>();
  };
  switch (strategy) {
    case ring_strategy::single_counter:
      return sized.template operator()<ring_strategy::single_counter>();
    case ring_strategy::split_counter:
      return sized.template operator()<ring_strategy::split_counter>();
    case ring_strategy::per_reader_flags:
      return sized.template operator()<ring_strategy::per_reader_flags>();
    default:
      return sized.template operator()<ring_strategy::mbarrier>();
  }
}

/// Enqueues the kernel on the rank's stream and returns. Throws cuda_error if the launch fails.
void launch(const world& w, const launch_config& c, const params& p, stream_ref stream);

}  // namespace baton::ring_gemm_kernels
