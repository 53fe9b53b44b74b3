#pragma once
// How the ranks of a communicator agree on who takes part.
#include "api/ep_workspace.hpp"
#include "baton/ep_membership.hpp"

namespace baton {

/// All ranks, at creation.
ep_membership all_members(int num_ranks);

/// As members tell each other of it, and back.
std::uint64_t word_of(const ep_membership& members);
ep_membership members_of(std::uint64_t word);

/// @throws invalid_argument  `next` cannot follow a membership of which this rank told last
void require_next(const world& w, const ep_membership& next, std::uint64_t last_epoch);

/// One step of a meeting of the members of `next` (protocol/membership.hpp): what this rank enqueued before happens before what
/// any member enqueues after.
/// @throws stuck             a member did not come
/// @throws invalid_argument  members do not agree on who they are
void meet(const world& w, const ep_workspace& workspace, const ep_membership& next, int step);

}  // namespace baton
