#include "tests/support/gpu_window_processes.cuh"

namespace baton::test {
namespace {

TEST(window_gpu_processes, two_processes_that_share_a_gpu_see_each_others_writes) {
  if (num_gpus_without_touching_cuda() < 1) GTEST_SKIP() << "needs a GPU, found none";
  expect_windows_between_processes(2, 1);
}

}  // namespace
}  // namespace baton::test
