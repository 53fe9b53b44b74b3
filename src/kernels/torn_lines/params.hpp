#pragma once
// What the look for torn lines is asked, and what it finds.
#include <cstddef>
#include <cstdint>

#include "protocol/ep_local_sync_counters.hpp"

namespace baton::torn_lines {

inline constexpr int max_ranks = max_gpus_per_node;

/// Of one rank, or of all together.
struct found {
  std::uint64_t lines = 0;  // looked at
  std::uint64_t moving =
      0;  // of these, such as showed neither the first nor the last round: they were being written
  std::uint64_t torn = 0;     // of these, such as showed several rounds
  std::uint64_t writers = 0;  // bit r: lines of rank r were torn
};

/// Areas are four lines for each warp that sends.
struct params {
  std::byte* to[max_ranks] = {};          // this rank's area in each rank's window
  const std::byte* from[max_ranks] = {};  // each rank's area in this one's
  found* result = nullptr;                // starts as zeros
  int rank = 0, num_ranks = 0;
  int rounds = 0;  // that a sender writes
  int looks = 0;   // that a reader takes at most; it ends when all lines show the last round
};

}  // namespace baton::torn_lines
