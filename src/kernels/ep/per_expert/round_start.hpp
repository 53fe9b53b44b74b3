#pragma once
// How every kernel of a round begins: which round it is, and whether the rank has given up.
#include "exec/exec.hpp"
#include "kernels/ep/per_expert/shared_plan.hpp"

namespace baton::ep {

struct round_start {
  std::uint32_t epoch;
  std::int32_t aborted;
};

/// The round that begins, after `completed` others, and whether a wait of this rank gave up before.
template <exec_context X>
BATON_FN round_start read_round_start(X& x, const std::uint32_t* completed) {
  const bool aborted = x.has_given_up();  // both loads in flight together
  return {x.read(completed) + 1, aborted ? 1 : 0};
}

/// One lane reads for the block.
template <exec_context X>
BATON_FN void note_round_start(X& x, const std::uint32_t* completed, const round_start_plan& noted) {
  x.block_each(1, [&](int) {
    const round_start now = read_round_start(x, completed);
    x.write(noted.epoch(x), now.epoch);
    x.write(noted.aborted(x), now.aborted);
  });
}

/// After a sync_block, from the cell that one lane of the block wrote. False in all warps: what lies in this rank's memory is
/// not of this round. The words of the round it gave up in may have come since, so waiting is no way to find out.
template <exec_context X>
BATON_FN bool goes_on(X& x, const std::int32_t* aborted) {
  return x.from_one([&] { return x.read(aborted); }) == 0;
}

}  // namespace baton::ep
