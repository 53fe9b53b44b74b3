#pragma once
// How a wait says what it waits for: one that lasts in its record of the log; one that outlived its deadline, if it is the first
// of its rank, in the rank's record. All of these set the rank's abort word, and every wait of the rank then returns false.
#include "base/macros.hpp"
#include "exec/wait.hpp"
#include "ptx/access.cuh"

namespace baton {

/// Called by one lane. `found` names everything but `claimed`, `complete` and `slot`. `lasts`: the wait goes on, and this is its
/// record in the log; null: it has outlived its deadline, or what it found was refused.
BATON_FN void report_wait(const wait_limits& limits, const stuck_record& found, stuck_record* lasts) {
  stuck_record* record = lasts;
  if (lasts == nullptr && limits.record != nullptr &&
      ptx::atom_cas_relaxed_gpu(&limits.record->claimed, 0u, 1u) == 0u)
    record = limits.record;
  if (record != nullptr) {
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
    out.slot = static_cast<std::int8_t>(limits.slot);
    if (lasts != nullptr)
      ptx::st<order::relaxed, scope::device>(&out.complete, 1u);
    else
      ptx::st<order::release, scope::system>(&out.complete, 1u);
  }
  if (lasts == nullptr && limits.abort != nullptr) ptx::st<order::relaxed, scope::system>(limits.abort, 1u);
}

}  // namespace baton
