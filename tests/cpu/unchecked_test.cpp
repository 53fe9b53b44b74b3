// What lanes do in a verb of the CPU machine is checked by sanitizers, though the verb itself is not.
#include "base/unchecked.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "sim/lane_verbs.hpp"

namespace baton::sim::unchecked {
namespace {

struct one_warp : lane_verbs<one_warp> {
  static int warp() { return 0; }
  static int num_warps() { return 1; }
};

TEST(unchecked, an_access_outside_and_an_overflow_by_a_lane_are_reported) {
#if defined(BATON_ADDRESSES_ARE_CHECKED)
  one_warp x;
  const std::vector<int> values(31);
  int most = std::numeric_limits<int>::max() - 30, sum = 0;
  EXPECT_DEATH(x.each_lane([&](int lane) { sum = values.data()[lane]; }), "AddressSanitizer");
  EXPECT_DEATH(x.each(32, [&](int i) { sum = values.data()[i]; }), "AddressSanitizer");
  EXPECT_DEATH(x.block_each(32, [&](int i) { sum = values.data()[i]; }), "AddressSanitizer");
  EXPECT_DEATH(x.elect([&] { sum = values.data()[31]; }), "AddressSanitizer");
  EXPECT_DEATH(static_cast<void>(x.from_one([&] { return values.data()[31]; })), "AddressSanitizer");
  EXPECT_DEATH(x.each_lane([&](int lane) { sum = most + lane; }), "signed integer overflow");
  EXPECT_EQ(sum, 0);
#else
  GTEST_SKIP() << "AddressSanitizer is not in this build";
#endif
}

}  // namespace
}  // namespace baton::sim::unchecked
