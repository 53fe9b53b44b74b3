#pragma once
// How many GPUs there are, for tests that skip.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "tests/support/forked_ranks.hpp"

#define BATON_REQUIRE_GPUS(n) \
  if (num_gpus() < (n)) GTEST_SKIP() << "needs " << (n) << " GPUs, found " << num_gpus()

namespace baton::test {

inline int num_gpus() {
  int n = 0;
  return cudaGetDeviceCount(&n) == cudaSuccess ? n : 0;
}

/// Counted in a child: a process with a CUDA context must not fork.
inline int num_gpus_without_touching_cuda() {
  const auto results = in_processes({0}, [](int) -> bool { ::_exit(num_gpus()); });
  return results[0].exit_code < 128 ? results[0].exit_code : 0;
}

}  // namespace baton::test
