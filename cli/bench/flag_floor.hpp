#pragma once
// The least a round of two kernels can take between these GPUs, whatever it carries.
#include <span>
#include <vector>

#include "baton/world.hpp"

namespace baton::cli {

/// Microseconds a round of each rank, `repeats` times: two kernels of one warp, replayed as the exchange's rounds are, each of
/// which stores a word to every rank and waits for every rank's, with no order asked for. CUDA only.
std::vector<std::vector<double>> measure_flag_floor(std::span<const world> worlds, int rounds, int repeats);

}  // namespace baton::cli
