#pragma once
// What a rank does whose wait gave up, where some ranks are beyond its p2p group (protocol/lost_rank.hpp): it tells the others
// for whom it waited, hears for whom they did, and notes in its stuck record who was lost. One warp, behind what gave up.
#include "exec/kernel.hpp"
#include "kernels/ep/lost_rank/params.hpp"

namespace baton::ep::lost_rank {

inline constexpr int slices_of_deadline = 8;

/// How long to hear others, who may wait twice as long as this rank did, and have begun a deadline later: three deadlines after
/// its wait began. No time where the host, or what was found, ended the wait. With two levels who waits for a forwarder does so
/// for two deadlines: who waited one itself hears a silent one that long.
BATON_FN hearing hearing_after(std::uint64_t waited_ns, std::uint64_t deadline_ns, bool has_two_levels) {
  if (deadline_ns == 0 || waited_ns < deadline_ns) return {0, 1};
  if (waited_ns >= 2 * deadline_ns) return {slices_of_deadline, 1};
  return {2 * slices_of_deadline, has_two_levels ? slices_of_deadline + 1 : 1};
}

struct kernel {
  static constexpr kernel_bounds bounds{.max_threads = warp_lanes};

  /// `X`: its waits last a slice of a deadline, and neither end by the rank's abort word nor report.
  template <far_exec_context X>
  static BATON_FN void run(X& x, const params& p) {
    if (x.from_one([&] { return x.read(&p.record->complete); }) == 0) return;
    const std::uint64_t waited_ns = x.from_one([&] { return x.read(&p.record->waited_ns); });
    const int peer = x.from_one([&] { return x.read(&p.record->peer); });
    const int rank = p.words.rank;
    const int lost = find_lost(x, p.words, waited_ns == 0 || peer < 0 ? rank : peer,
                               hearing_after(waited_ns, p.deadline_ns, p.has_two_levels));
    if (lost == rank) return;
    x.elect([&] {
      x.template store<order::release, scope::system>(
          &p.record->claimed, stuck_record::lost_is + static_cast<std::uint32_t>(lost));
    });
  }
};

}  // namespace baton::ep::lost_rank
