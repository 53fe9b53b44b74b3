#include "protocol/ep_local_sync_counters.hpp"

#include <gtest/gtest.h>

#include <type_traits>

namespace baton {
namespace {

TEST(ep_local_sync_counters, has_the_documented_sizes) {
  for (const int n : {1, 16, 32, 64, 256}) {
    EXPECT_EQ(ep_local_sync_counters::dispatch_async_size(n), 2 * n + 8);
    EXPECT_EQ(ep_local_sync_counters::dispatch_wait_size(n), 4 * n + 4);
    EXPECT_EQ(ep_local_sync_counters::combine_async_size(n), 4 * n + 4);
    EXPECT_EQ(ep_local_sync_counters::combine_wait_size(n), 2 * n);
    EXPECT_EQ(ep_local_sync_counters::total_size(n), 8 * n + 12);
  }
}

TEST(ep_local_sync_counters, has_the_documented_regions_and_none_overlap) {
  constexpr int n = 16;
  std::int32_t words[ep_local_sync_counters::total_size(n)] = {};
  const ep_local_sync_counters c{words, n};
  EXPECT_EQ(c.combine_async_ptr(), c.dispatch_wait_ptr());
  EXPECT_EQ(c.reserved(0), c.dispatch_async_ptr());
  EXPECT_EQ(c.finished(0), c.dispatch_async_ptr() + n);
  EXPECT_EQ(c.rank_completion(0), c.dispatch_async_ptr() + 2 * n);
  EXPECT_EQ(c.rank_completion(max_gpus_per_node), c.dispatch_wait_ptr());
  EXPECT_EQ(c.end_row(0), c.dispatch_wait_ptr());
  EXPECT_EQ(c.row_count(n - 1) + 1, c.rank_prefix(0));
  EXPECT_EQ(c.rank_prefix(n - 1) + 1, c.work(0));
  EXPECT_EQ(c.work(n - 1) + 1, c.dispatch_departed());
  EXPECT_EQ(c.offsets_ready(), c.dispatch_wait_ptr() + 4 * n + 1);
  EXPECT_EQ(c.send_buf_ready(), c.dispatch_wait_ptr() + 4 * n + 2);
  EXPECT_EQ(c.shared_expert_started() + 1, c.combine_wait_ptr());
  EXPECT_EQ(c.combine_departed() + 1, c.combine_wait_ptr() + 2);
  EXPECT_EQ(c.combine_wait_ptr() + ep_local_sync_counters::combine_wait_size(n), words + std::size(words));
}

TEST(ep_local_sync_counters, is_a_trivially_copyable_handle) {
  EXPECT_TRUE(std::is_trivially_copyable_v<ep_local_sync_counters>);
  EXPECT_LE(sizeof(ep_local_sync_counters), 16u);
}

}  // namespace
}  // namespace baton
