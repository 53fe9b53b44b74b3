#include "tests/support/gpu_window_processes.cuh"

namespace baton::test {
namespace {

class window_gpus_processes : public testing::TestWithParam<int> {};

TEST_P(window_gpus_processes, one_process_a_gpu_maps_every_peer) {
  const int found = num_gpus_without_touching_cuda();
  if (found < GetParam()) GTEST_SKIP() << "needs " << GetParam() << " GPUs, found " << found;
  expect_windows_between_processes(GetParam(), GetParam());
}

INSTANTIATE_TEST_SUITE_P(cuda, window_gpus_processes, testing::Values(2, 4, 8));

}  // namespace
}  // namespace baton::test
