#pragma once
// A stuck record in words.
#include <string>

#include "baton/error.hpp"
#include "runtime/world_state.hpp"

namespace baton {

/// "rank 3 waited 30.0 s at dispatch.arrival for rank 6, round 18: ..."
std::string stuck_text(const stuck_record& record);

/// What the ranks of a communicator can do of which one lost work: whether members can be set, and whether its ranks are in a
/// set of NVSHMEM's.
std::string way_on(bool has_members, bool by_nvshmem);

/// Throws stuck if a kernel of this rank has filled its record in; the record and the abort word are then
/// clear again, for the communicator that replaces the broken one. Only while the rank's kernels are done.
void throw_if_stuck(detail::world_state& state);

/// Whether this rank saw all through that it began since `then`, also where nobody has looked at its stuck record. Only while the
/// rank's kernels are done.
bool is_all_done_since(const detail::world_state& state, const detail::lost_work& then);

}  // namespace baton
