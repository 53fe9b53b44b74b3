#pragma once
// Cycles of a hand-off through a ring buffer, for each strategy.
#include <algorithm>
#include <array>
#include <vector>

#include "baton/ring_gemm.hpp"

namespace baton::hand_off {

/// The numbers of readers and of stages that there are kernels for: each pair is a kernel of every strategy, and more of them
/// take nvcc longer than they tell.
inline constexpr std::array counts{1, 2, 4, 8};
inline constexpr int most_readers = counts.back();
constexpr bool is_counted(int n) {
  return std::find(counts.begin(), counts.end(), n) != counts.end();
}

struct point {
  ring_strategy strategy = ring_strategy::mbarrier;
  int stages = 2;        // of counts
  int readers = 1;       // of counts
  int hand_offs = 2000;  // timed together
  int blocks = 16;       // each on an SM of its own, each a sample
};

/// Cycles per hand-off of every block, on the world's GPU: the time of filling, reading by all readers and freeing one
/// slot in steady state.
/// @throws unsupported       the world's device is the CPU, or the build has no CUDA
/// @throws invalid_argument  a number out of range or not of counts
/// @throws stuck             a hand-off was lost
std::vector<double> measure(const world& world, const point& p);

}  // namespace baton::hand_off
