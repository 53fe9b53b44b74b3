#pragma once
#include "baton/world.hpp"

namespace baton {

/// That lines arrive whole (protocol/line.hpp) is assumed of GPUs and their links, so it is tried before the first communicator
/// that needs it: once in a process for the same GPUs and p2p groups (0: all ranks), some 10 ms. Lines of the CPU are whole.
/// Collective.
/// @throws unsupported  on all ranks: who saw whose lines in part; or NVSHMEM is not there, for groups smaller than the ranks
void require_whole_lines(const world& w, int p2p_group_size);

}  // namespace baton
