#pragma once
// Warp collectives made of the context's shuffles.
#include "exec/exec.hpp"

namespace baton {

/// Lane i gets the sum of lanes 0..i.
template <exec_context X>
BATON_FN void inclusive_scan(X& x, typename X::template lanes<int>& values) {
  for (int distance = 1; distance < warp_lanes; distance *= 2) {
    const auto lower = x.shuffle_up(values, distance);
    x.each_lane([&](int lane) {
      if (lane >= distance) values[lane] += lower[lane];
    });
  }
}

}  // namespace baton
