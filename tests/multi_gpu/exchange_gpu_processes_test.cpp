// The exchange with one process a GPU. This process never touches CUDA, so that it may fork.
#include "tests/support/exchange_processes.hpp"
#include "tests/support/gpu_count.hpp"

namespace baton::test {
namespace {

class exchange_gpu_processes : public testing::TestWithParam<int> {};

TEST_P(exchange_gpu_processes, every_row_and_every_sum_is_right_to_the_bit) {
  const int ranks = GetParam(), devices = num_gpus_without_touching_cuda();
  if (devices < ranks) GTEST_SKIP() << "needs " << ranks << " GPUs, found " << devices;
  expect_conformance_of_processes(ranks, device_kind::cuda, 3, 5);
}

INSTANTIATE_TEST_SUITE_P(cuda, exchange_gpu_processes, testing::Values(2, 4));

}  // namespace
}  // namespace baton::test
