#pragma once
#include "exec/exec.hpp"

namespace baton {

/// This thread's lane. What is worked out of it is worked out where it is used, and not kept in registers while products run.
BATON_FN int lane_here() {
  int lane = static_cast<int>(threadIdx.x) % warp_lanes;
  asm volatile("" : "+r"(lane));
  return lane;
}

}  // namespace baton
