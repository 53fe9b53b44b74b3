#pragma once
#include "baton/world.hpp"

namespace baton {

/// That lines arrive whole (protocol/line.hpp) is assumed of GPUs and their links, so it is tried before the first communicator
/// that needs it: once in a process for the same GPUs, some 10 ms. Lines of the CPU are whole. Collective.
/// @throws unsupported  on all ranks: who saw whose lines in part
void require_whole_lines(const world& w);

}  // namespace baton
