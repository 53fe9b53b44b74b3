#pragma once
// What the links between ranks really do: push bandwidth and the latency of a flag.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "baton/world.hpp"

namespace baton::probe {

/// Of repeated measurements.
struct spread {
  double median = 0;
  double lowest = 0;
  double highest = 0;
};

struct link_report {
  std::string between;  // "GPUs", "two buffers of one GPU", "threads of this CPU"
  std::string method;   // what moved the bytes
  std::uint64_t bytes_per_peer = 0;
  std::vector<int> devices;             // who pushed: CUDA ordinals, or 0 to n - 1 for threads
  std::vector<spread> egress_gb_per_s;  // of each, to all its peers at once while all others push too
  spread flag_us;          // if flags are measured: one way, relaxed stores and loads; over all pairs
  spread flag_ordered_us;  // one way, release stores and acquire loads at system scope
};

enum class links_of { bytes_and_flags, bytes };

/// Measures among the devices of `worlds`, all ranks of one world::local; the first rank of each device takes
/// part. Takes about a second and 32 MiB a peer on each device. Every wait is bounded.
/// @throws stuck          a flag did not arrive within two seconds
/// @throws out_of_memory
link_report measure_links(std::span<const world> worlds, links_of what = links_of::bytes_and_flags);

/// Median and extremes; `samples` must not be empty.
spread spread_of(std::vector<double> samples);

}  // namespace baton::probe
