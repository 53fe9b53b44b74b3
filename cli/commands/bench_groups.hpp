#pragma once
// `baton bench groups`: ranks within the p2p group, which stores reach, beside ranks beyond it, which a network reaches.
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "baton/expert_parallel.hpp"
#include "baton/world.hpp"

namespace baton::cli {

struct bench_groups_options {
  std::optional<device_kind> device;              // empty: CUDA if there is one, else the CPU
  std::vector<int> group_sizes;                   // empty: all ranks, then 1
  std::vector<ep_levels> levels{ep_levels::one};  // of each group smaller than the ranks
  std::vector<int> tokens;                        // empty: 1, 8 and 128 on CUDA, 4 on the CPU
  int hidden = 7168, top_k = 8, experts = 256;
  ep_layout layout = ep_layout::per_expert;
  ep_transfer transfer = ep_transfer::automatic;  // of layout per_rank; beyond the group only chunks are
  int repeats = 10, rounds = 20;
  std::uint64_t seed = 1;
  bool json = false;      // `out` gets JSON, one object a line, and no table
  std::string json_path;  // if not empty, this file gets the JSON as well
};

/// One rank of a job that torchrun or a similar launcher started: rounds of a layout in bf16 through each group size and, where
/// there is more than one group, by each of the levels; each is checked first and compared with the bits of the first one that
/// adds up in the same order, and on CUDA NVSHMEM's own all-to-all of as many bytes is timed beside them. Rank 0 tells, the
/// others say nothing. Returns an exit_code: check_failed on all ranks if a result of any was wrong.
/// @throws baton::error  what the exchange throws; invalid_argument for a number out of range
int run_bench_groups(const bench_groups_options& options, std::ostream& out);

}  // namespace baton::cli
