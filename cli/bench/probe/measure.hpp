#pragma once
// The two ways to measure; measure_links chooses.
#include <span>

#include "cli/bench/probe/probe.hpp"

namespace baton::probe {

inline constexpr std::uint64_t slice_bytes = 32 << 20;  // a peer's part of a window
inline constexpr std::uint64_t flag_deadline_ns = 2'000'000'000;

/// `num_threads` threads copy, two bounce a flag.
link_report measure_threads(int num_threads, links_of what);

/// @throws unsupported  the build has no CUDA
link_report measure_gpus(std::span<const world> worlds, links_of what);

}  // namespace baton::probe
