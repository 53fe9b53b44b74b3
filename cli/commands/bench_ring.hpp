#pragma once
// `baton bench ring`: what a hand-off through a ring buffer costs with each strategy, and how fast the ring-buffered
// matrix product is with it.
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "baton/ring_gemm.hpp"

namespace baton::cli {

struct bench_ring_options {
  std::vector<ring_strategy> strategies{ring_strategy::single_counter, ring_strategy::split_counter,
                                        ring_strategy::per_reader_flags, ring_strategy::mbarrier};
  std::vector<int> readers{1, 2, 4, 8};  // each of hand_off::counts
  std::vector<int> stages{1, 2, 4, 8};
  int hand_offs = 2000;    // timed together
  std::vector<int> sizes;  // m = n = k of the products; empty: 1024 to 8192 on CUDA, 128 on the CPU
  ring_gemm_tiles tiles = ring_gemm_tiles::automatic;
  std::optional<device_kind> device;  // empty: CUDA if there is one, else the CPU
  int repeats = 20;
  bool json = false;      // `out` gets JSON, one object a line, and no table
  std::string json_path;  // if not empty, this file gets the JSON as well; tools/plot_ring.py draws it
};

/// Measures every strategy: hand-offs for all readers and stages (on a GPU only), then products of all sizes, each
/// checked first, cuBLAS beside them where it can be loaded. Prints as it goes. Returns an exit_code: check_failed if a
/// product was wrong (it has no times then).
/// @throws baton::error  what the kernels throw; invalid_argument for a number out of range
int run_bench_ring(const bench_ring_options& options, std::ostream& out);

}  // namespace baton::cli
