#pragma once
#include "baton/numeric.hpp"

namespace baton {

/// How the warps of the product hand tiles over: four ways to say "this slot is filled" and "this slot is free". Same
/// results, different speed; `baton bench ring` measures them.
enum class ring_strategy {
  single_counter,    // one counter a slot, written and polled by both sides
  split_counter,     // one counter for the producer, one for the readers
  per_reader_flags,  // a flag for each reader, no read-modify-writes
  mbarrier,          // hardware barriers; waits suspend instead of polling
};

constexpr const char* name(ring_strategy s) {
  switch (s) {
    case ring_strategy::single_counter:
      return "single_counter";
    case ring_strategy::split_counter:
      return "split_counter";
    case ring_strategy::per_reader_flags:
      return "per_reader_flags";
    default:
      return "mbarrier";
  }
}

/// Block tiles: large is 128 x 128 with 14 warps, small 64 x 64 with 8.
enum class ring_gemm_tiles { automatic, small, large };

struct ring_gemm_config {
  ring_strategy strategy = ring_strategy::mbarrier;
  ring_gemm_tiles tiles = ring_gemm_tiles::automatic;  // small where large ones would leave SMs without work
  int num_sms = 0;                                     // blocks at most; 0: all of the rank's SMs
};

struct ring_gemm_problem {
  const bfloat16* a = nullptr;  // [m, k]
  const bfloat16* b = nullptr;  // [n, k]
  float* c = nullptr;           // [m, n]
  int m = 0, n = 0, k = 0;
};

}  // namespace baton
