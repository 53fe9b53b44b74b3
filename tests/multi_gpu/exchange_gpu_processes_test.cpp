// The exchange with one process a GPU. This process never touches CUDA, so that it may fork.
#include <cuda_runtime_api.h>

#include "tests/support/exchange_processes.hpp"

namespace baton::test {
namespace {

/// Counted in a child: a process with a CUDA context must not fork.
int num_devices() {
  const auto results = in_processes({0}, [](int) -> bool {
    int n = 0;
    if (cudaGetDeviceCount(&n) != cudaSuccess) n = 0;
    ::_exit(n);
  });
  return results[0].exit_code < 128 ? results[0].exit_code : 0;
}

class exchange_gpu_processes : public testing::TestWithParam<int> {};

TEST_P(exchange_gpu_processes, every_row_and_every_sum_is_right_to_the_bit) {
  const int ranks = GetParam(), devices = num_devices();
  if (devices < ranks) GTEST_SKIP() << "needs " << ranks << " GPUs, found " << devices;
  expect_conformance_of_processes(ranks, device_kind::cuda, 3, 5);
}

INSTANTIATE_TEST_SUITE_P(cuda, exchange_gpu_processes, testing::Values(2, 4));

}  // namespace
}  // namespace baton::test
