#pragma once
#include <cstdint>

#include "exec/exec.hpp"

namespace baton::probe {

inline constexpr int most_peers = 15;

/// Every peer gets `chunks` chunks of `chunk_vecs` vectors, `sweeps` times over.
struct push_params {
  vec16* to[most_peers] = {};  // this rank's slice of each peer's window
  int num_peers = 0;
  int chunks = 0;
  int chunk_vecs = 0;
  int sweeps = 1;
  int rank = 0;
};

/// One side of a flag that goes back and forth `warmup + rounds` times. The word only grows: `base + 1`, ...
struct bounce_params {
  std::uint64_t* mine = nullptr;    // the peer stores here
  std::uint64_t* theirs = nullptr;  // in the peer's window
  std::uint64_t base = 0;
  std::uint64_t warmup = 0;
  std::uint64_t rounds = 0;
  std::uint64_t* elapsed_ns = nullptr;  // of `rounds` there and back
  int peer = 0;
  bool serves = false;  // has the first turn
};

/// Half of the least round there can be: a word to every rank, and every rank's word.
struct greet_params {
  std::uint64_t* to[most_peers + 1] = {};  // this rank's word in each rank's window
  std::uint64_t* from = nullptr;           // the ranks' words in this one's, greet_stride apart
  std::uint64_t* count = nullptr;          // how often; only this kernel writes it
  int num_ranks = 0;
};
inline constexpr int greet_stride = 16;

}  // namespace baton::probe
