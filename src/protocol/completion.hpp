#pragma once
// Counting completion: many blocks add up finished work; exactly one learns that it was the last.
//
//   cell        starts   each block                          the one that reaches the target
//   counter     0        count_to acq_rel, device scope      stores 0 and goes on, alone
//
// C1: everything any block did before its finish() happens before what the elected lane does after its own:
//     each add releases, and the chain of read-modify-writes carries every release to the last acquire.
// Start:    0, and 0 again once elected: the amounts of a round sum to exactly `target`.
// Progress: nobody waits.
#include <cstdint>

#include "base/macros.hpp"
#include "exec/exec.hpp"

namespace baton {

/// One lane: adds `amount` > 0 finished units. True in the one call that completes `target`.
template <exec_context X>
BATON_FN bool finish(X& x, std::int32_t* counter, int amount, int target) {
  auto* cell = reinterpret_cast<std::uint32_t*>(counter);
  const auto units = static_cast<std::uint32_t>(amount);
  const auto all = static_cast<std::uint32_t>(target);
  if (!x.template count_to<order::acq_rel, scope::device>(cell, units, all)) return false;
  x.template store<order::relaxed, scope::device>(cell, 0u);
  return true;
}

}  // namespace baton
