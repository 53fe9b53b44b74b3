#pragma once
// Cycles of a hand-off through a ring buffer, for each strategy.
#include <vector>

#include "baton/ring_gemm.hpp"

namespace baton::hand_off {

inline constexpr int most_readers = 8;
inline constexpr int most_stages = 8;

struct point {
  ring_strategy strategy = ring_strategy::mbarrier;
  int stages = 2;        // 1 to most_stages
  int readers = 1;       // 1 to most_readers
  int hand_offs = 2000;  // timed together
  int blocks = 16;       // each on an SM of its own, each a sample
};

/// Cycles per hand-off of every block, on the world's GPU: the time of filling, reading by all readers and freeing one
/// slot in steady state.
/// @throws unsupported       the world's device is the CPU, or the build has no CUDA
/// @throws invalid_argument  a number out of range
/// @throws stuck             a hand-off was lost
std::vector<double> measure(const world& world, const point& p);

}  // namespace baton::hand_off
