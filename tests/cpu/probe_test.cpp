#include "cli/bench/probe/probe.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "baton/error.hpp"

namespace baton::probe {
namespace {

TEST(spread, is_the_median_and_the_extremes) {
  const spread odd = spread_of({3, 1, 2});
  EXPECT_EQ(odd.median, 2);
  EXPECT_EQ(odd.lowest, 1);
  EXPECT_EQ(odd.highest, 3);
  EXPECT_EQ(spread_of({4, 1, 2, 3}).median, 2.5);
}

TEST(measure_links, threads_of_the_cpu_copy_and_bounce_a_flag) {
  const auto worlds = world::local(2, device_kind::cpu);
  const link_report report = measure_links(worlds);
  EXPECT_EQ(report.between, "threads of this CPU");
  ASSERT_GE(report.egress_gb_per_s.size(), 1u);
  EXPECT_EQ(report.devices.size(), report.egress_gb_per_s.size());
  for (const spread& rate : report.egress_gb_per_s) {
    EXPECT_GT(rate.lowest, 0.0);
    EXPECT_LE(rate.lowest, rate.median);
    EXPECT_LE(rate.median, rate.highest);
  }
  EXPECT_GT(report.flag_us.lowest, 0.0);
  EXPECT_GT(report.flag_ordered_us.lowest, 0.0);
}

TEST(measure_links, no_ranks_are_refused) {
  EXPECT_THROW(measure_links(std::vector<world>{}), invalid_argument);
}

}  // namespace
}  // namespace baton::probe
