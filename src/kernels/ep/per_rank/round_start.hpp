#pragma once
// How the kernels of layout per_rank begin.
#include "exec/exec.hpp"
#include "kernels/ep/per_rank/params.hpp"

namespace baton::ep::per_rank {

/// A round, and who takes part in it: nothing is sent to a rank that is absent, and nothing of it awaited. What such a rank still
/// stores into its own places, nobody reads.
struct member_round {
  std::uint64_t epoch;
  std::uint32_t absent;  // bit r: rank r
  BATON_FN bool has(int rank) const { return (absent >> rank & 1) == 0; }
};

/// What a warp learns first: rounds before this one, whether the rank has given up, and, of dispatch, who is absent. Each word as
/// it was loaded: what is computed from one before the broadcast would wait for it, and all later loads with it.
struct round_start {
  std::uint32_t low, high;
  std::uint32_t absent;   // bit r: rank r
  std::uint32_t gave_up;  // 0, or not
  BATON_FN std::uint64_t epoch() const { return static_cast<std::uint64_t>(high) << 32 | low; }
  BATON_FN bool aborted() const { return gave_up != 0; }
  /// Who is more than a p2p group may have is never absent.
  BATON_FN member_round next() const { return {epoch() + 1, absent & ((1u << max_near_ranks) - 1)}; }
};

/// On lane 0, not waited for: loads that do not depend on it may follow before somebody broadcasts it.
template <class X>
BATON_FN typename X::template lanes<round_start> begin_round(X& x, const std::uint64_t* epoch,
                                                             const std::uint64_t* absent = nullptr) {
  typename X::template lanes<round_start> start{};
  x.elect([&] {
    const std::uint64_t before = x.read(epoch), who = absent == nullptr ? 0 : x.read(absent);
    start[0] = {static_cast<std::uint32_t>(before), static_cast<std::uint32_t>(before >> 32),
                static_cast<std::uint32_t>(who), x.gave_up_before()};
  });
  return start;
}

}  // namespace baton::ep::per_rank
