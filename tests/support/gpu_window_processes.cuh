#pragma once
// Windows between processes on GPUs. The calling process never touches CUDA, so that it may fork.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/gpu_count.hpp"
#include "tests/support/gpu_windows.cuh"

namespace baton::test {

/// `size` processes on `num_devices` GPUs, round robin; two windows each, each of which goes and comes
/// back.
inline void expect_windows_between_processes(int size, int num_devices) {
  std::vector<int> ranks;
  for (int r = 0; r < size; ++r) ranks.push_back(r);
  const std::string run = unique_name();
  const auto results = in_processes(ranks, [&](int rank) -> bool {
    set_launch_environment(rank, size, run);
    ::setenv("LOCAL_RANK", std::to_string(rank % num_devices).c_str(), 1);
    const world w = world::from_environment(device_kind::cuda);
    if (w.device_index() != rank % num_devices) throw std::runtime_error{"wrong device"};
    for (int turn = 0; turn < 2; ++turn) {
      const auto window = make_window(w, window_bytes, "test", "");
      for (int life = 0; life < 2; ++life) {
        const std::string fault = window_fault(w, *window);
        if (!fault.empty()) throw std::runtime_error{fault};
        window->release();
        window->reacquire();
      }
    }
    return true;
  });
  for (std::size_t r = 0; r < results.size(); ++r)
    EXPECT_EQ(results[r].exit_code, 0) << "rank " << r << ": " << results[r].thrown;
}

}  // namespace baton::test
