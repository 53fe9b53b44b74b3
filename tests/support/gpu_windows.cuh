#pragma once
// What every window on GPUs must do, checked by kernels that store through the peers' addresses.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "baton/device_buffer.hpp"
#include "runtime/device_guard_cuda.hpp"
#include "runtime/window.hpp"

namespace baton::test {

inline constexpr std::size_t window_bytes = 3'000'000;  // no multiple of an allocation unit
inline constexpr int most_ranks = 16;

struct peer_words {
  std::uint32_t* at[most_ranks];
};

inline std::uint32_t mark(int from, int to) {
  return static_cast<std::uint32_t>(0xabc000 + 16 * from + to);
}

/// Every rank's word `me`, and the last word of every block in turn: rank 0's, then rank 1's, ...
static __global__ void store_marks(peer_words peers, int num_ranks, int me, std::uint32_t last_word) {
  for (int r = static_cast<int>(threadIdx.x); r < num_ranks; r += static_cast<int>(blockDim.x)) {
    peers.at[r][me] = 0xabc000u + 16u * static_cast<std::uint32_t>(me) + static_cast<std::uint32_t>(r);
    if (r == (me + 1) % num_ranks) peers.at[r][last_word] = static_cast<std::uint32_t>(me);
  }
}

inline std::vector<std::uint32_t> read_own(const world& w, const symmetric_window& window) {
  return to_host(w, window.peer_as<std::uint32_t>(w.rank()), window_bytes / 4);
}

inline void start_marks(const world& w, const symmetric_window& window) {
  peer_words peers{};
  for (int r = 0; r < w.size(); ++r) peers.at[r] = window.peer_as<std::uint32_t>(r);
  const device_guard guard{w.device_index()};
  store_marks<<<1, 32>>>(peers, w.size(), w.rank(), window_bytes / 4 - 1);
  check(cudaGetLastError(), "launching store_marks");
}

/// Empty if the own block is still zero.
inline std::string not_zero(const world& w, const symmetric_window& window) {
  const auto words = read_own(w, window);
  for (std::size_t i = 0; i < words.size(); ++i)
    if (words[i] != 0)
      return "word " + std::to_string(i) + " is " + std::to_string(words[i]) + ", expected 0";
  return {};
}

/// Empty if all ranks' marks have arrived in the own block. After all ranks have synchronised.
inline std::string marks_missing(const world& w, const symmetric_window& window) {
  const auto words = read_own(w, window);
  for (int r = 0; r < w.size(); ++r)
    if (words[static_cast<std::size_t>(r)] != mark(r, w.rank()))
      return "the mark of rank " + std::to_string(r) + " is " +
             std::to_string(words[static_cast<std::size_t>(r)]);
  const auto left = static_cast<std::uint32_t>((w.rank() + w.size() - 1) % w.size());
  return words.back() == left ? "" : "the last word is " + std::to_string(words.back());
}

/// All of it by one rank among ranks that run side by side.
inline std::string window_fault(const world& w, const symmetric_window& window) {
  const auto meet = [&] {
    std::vector<char> all(static_cast<std::size_t>(w.size()));
    w.all_gather("m", all.data(), 1);
  };
  std::string fault = not_zero(w, window);
  meet();
  start_marks(w, window);
  w.synchronize();
  meet();
  if (fault.empty()) fault = marks_missing(w, window);
  meet();
  return fault;
}

}  // namespace baton::test
