#pragma once
// How the kernels of layout per_rank begin.
#include "exec/exec.hpp"
#include "kernels/ep/per_rank/params.hpp"

namespace baton::ep::per_rank {

/// What a warp learns first: rounds before this one, and whether the rank has given up.
struct round_start {
  std::uint32_t low, high;
  std::uint32_t aborted;
  BATON_FN std::uint64_t epoch() const { return static_cast<std::uint64_t>(high) << 32 | low; }
};

/// On lane 0, not waited for: loads that do not depend on it may follow before somebody broadcasts it.
template <class X>
BATON_FN typename X::template lanes<round_start> begin_round(X& x, const std::uint64_t* epoch) {
  typename X::template lanes<round_start> start{};
  x.elect([&] {
    const std::uint64_t before = x.read(epoch);
    start[0] = {static_cast<std::uint32_t>(before), static_cast<std::uint32_t>(before >> 32),
                x.gave_up_before()};
  });
  return start;
}

}  // namespace baton::ep::per_rank
