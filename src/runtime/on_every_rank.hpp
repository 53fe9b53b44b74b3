#pragma once
// Collective work on all ranks of world::local from one thread.
#include <functional>
#include <span>

#include "baton/world.hpp"

namespace baton {

/// Calls `work(rank)` for every rank, each in a thread of its own, and returns when all are done. If some
/// throw, the others' collective calls end at once, and the error of the lowest rank that failed by itself is
/// thrown. The worlds stay usable.
/// @throws invalid_argument  `worlds` are not all the ranks of one world::local, in order
/// @throws unsupported       the machine starts no more threads
void on_every_rank(std::span<const world> worlds, const std::function<void(int)>& work);

}  // namespace baton
