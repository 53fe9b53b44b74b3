#pragma once
#include <cstdint>
#include <string>

#include "baton/world.hpp"

namespace baton {

/// What a look for torn lines found.
struct line_trial {
  std::uint64_t looked_at = 0;      // lines of 128 bytes; 0 on the CPU
  std::uint64_t seen_changing = 0;  // of these
  std::string torn;                 // who saw how many of whose lines in part; empty: nobody any
};

/// Whether lines of 128 bytes that a warp stores at once arrive whole between these ranks' devices, which layout per_rank assumes
/// unless its transfer is flags, and PTX does not promise. expert_parallel::create looks by itself, once in a process; this
/// tells what was seen, as `baton doctor` does. On the CPU a line is there when its flag is, by C++'s rules: nothing is tried.
///
/// Collective; the same on all ranks. Takes some 10 ms of a GPU, and for its time 1 MiB for each rank in every rank's memory.
/// @throws unsupported  more than 8 ranks, which are no p2p group
/// @throws out_of_memory, transport_error, cuda_error
line_trial try_lines(const world& world);

}  // namespace baton
