#pragma once
// The only door into this kernel from the host. No device code, no templates.
#include <string>
#include <vector>

#include "baton/world.hpp"
#include "kernels/torn_lines/params.hpp"

namespace baton::torn_lines {

struct effort {
  int blocks = 0;  // 0: one an SM
  int rounds = 0;  // 0: some 10 ms of a GPU; 8 on the CPU
  int looks = 0;   // of a warp, at most; 0: four for each round
};

/// What each rank has found of lines that the ranks of its p2p group (0: all) have stored in its memory: [ranks]. Collective.
/// Takes some 10 ms, and 1 MiB for each rank in every rank's memory, which it gives back.
/// @throws out_of_memory, transport_error, cuda_error; unsupported as make_window_beyond
std::vector<found> look(const world& w, int p2p_group_size, const effort& asked = {});

/// Empty if no line was torn; else whose lines were torn for whom, and how many of how many.
std::string what_tore(const std::vector<found>& of_ranks);

}  // namespace baton::torn_lines
