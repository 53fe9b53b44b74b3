#pragma once
// How a wait that outlived its deadline says so: the first of a rank fills the rank's record, all set the
// rank's abort word, and every wait of the rank then returns false.
#include "base/macros.hpp"
#include "exec/wait.hpp"
#include "ptx/access.cuh"

namespace baton {

/// Called by one lane. `found` names everything but `claimed` and `complete`.
BATON_FN void report_stuck(const wait_limits& limits, const stuck_record& found) {
  if (limits.record != nullptr && ptx::atom_cas_relaxed_gpu(&limits.record->claimed, 0u, 1u) == 0u) {
    stuck_record* record = limits.record;
    // Opaque, or the addresses of its fields are kept in registers throughout every loop that has a wait in it.
    asm("" : "+l"(record));
    stuck_record& out = *record;
    out.rank = found.rank;
    out.block = found.block;
    out.warp = found.warp;
    out.where = found.where;
    out.peer = found.peer;
    out.epoch = found.epoch;
    out.expected = found.expected;
    out.seen = found.seen;
    out.waited_ns = found.waited_ns;
    out.lane = found.lane;
    ptx::st<order::release, scope::system>(&out.complete, 1u);
  }
  if (limits.abort != nullptr) ptx::st<order::relaxed, scope::system>(limits.abort, 1u);
}

}  // namespace baton
