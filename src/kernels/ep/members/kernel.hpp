#pragma once
// A step of a meeting (protocol/membership.hpp), by one warp: what the members told goes to the host, which knows what to think
// of it. What was enqueued before it, it tells of; what is enqueued behind it comes after what the others told of.
#include "exec/kernel.hpp"
#include "kernels/ep/members/params.hpp"

namespace baton::ep::members {

struct kernel {
  static constexpr kernel_bounds bounds{.max_threads = warp_lanes};

  template <exec_context X>
  static BATON_FN void run(X& x, const params& p) {
    typename X::template lanes<std::uint64_t> told{};
    if (!meet(x, p.step, told)) return;
    x.each_lane([&](int r) {
      if (r < most_members) x.write(p.seen + r, (p.step.told >> r & 1) != 0 ? told[r] : 0);
    });
  }
};

}  // namespace baton::ep::members
