// Windows over several GPUs of one process, and what the links between them do.
#include <gtest/gtest.h>

#include "cli/bench/probe/probe.hpp"
#include "runtime/world_state.hpp"
#include "tests/support/gpu_count.hpp"
#include "tests/support/gpu_windows.cuh"

namespace baton::test {
namespace {

class window_gpus : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (num_gpus() < GetParam()) GTEST_SKIP() << "needs " << GetParam() << " GPUs, found " << num_gpus();
  }
};

TEST_P(window_gpus, a_thread_for_each_rank_sees_every_peers_writes) {
  const auto worlds = world::local(GetParam(), device_kind::cuda);
  on_every_rank(worlds, [&](int rank) {
    const world& w = worlds[static_cast<std::size_t>(rank)];
    EXPECT_EQ(w.device_index(), rank);
    EXPECT_EQ(w.state().ranks_on_device, 1);
    const auto window = make_window(w, window_bytes, "test", "");
    EXPECT_EQ(window_fault(w, *window), "") << "rank " << rank;
  });
}

TEST_P(window_gpus, one_thread_that_drives_all_ranks_sees_them_too) {
  const auto worlds = world::local(GetParam(), device_kind::cuda);
  std::vector<std::unique_ptr<symmetric_window>> windows(worlds.size());
  on_every_rank(worlds, [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    windows[r] = make_window(worlds[r], window_bytes, "test", "");
  });
  for (std::size_t r = 0; r < worlds.size(); ++r) start_marks(worlds[r], *windows[r]);
  for (const world& w : worlds) w.synchronize();
  for (std::size_t r = 0; r < worlds.size(); ++r)
    EXPECT_EQ(marks_missing(worlds[r], *windows[r]), "") << "rank " << r;
}

TEST_P(window_gpus, the_link_probe_measures_every_gpu) {
  const auto worlds = world::local(GetParam(), device_kind::cuda);
  const probe::link_report report = probe::measure_links(worlds);
  EXPECT_EQ(report.between, "GPUs");
  ASSERT_EQ(report.egress_gb_per_s.size(), static_cast<std::size_t>(GetParam()));
  constexpr double roof = 500;  // 18 links of 26.6 GB/s: more would mean that bytes were not sent
  for (const probe::spread& rate : report.egress_gb_per_s) {
    EXPECT_GT(rate.median, 1.0);
    EXPECT_LT(rate.highest, roof);
  }
  EXPECT_GT(report.flag_us.lowest, 0.1);
  EXPECT_LE(report.flag_us.median, report.flag_ordered_us.median * 1.5);
}

INSTANTIATE_TEST_SUITE_P(cuda, window_gpus, testing::Values(2, 4, 8));

}  // namespace
}  // namespace baton::test
