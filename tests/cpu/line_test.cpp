// What tells a line of this round from any other.
#include "protocol/line.hpp"

#include <gtest/gtest.h>

namespace baton {
namespace {

constexpr int flag_lane = lanes_of_line - 1;

TEST(line, a_flag_with_one_bit_flipped_has_not_arrived_and_is_of_no_round_near) {
  for (const std::uint64_t epoch :
       {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{1} << 32, ~std::uint64_t{0}}) {
    const std::uint64_t flag = line_flag(epoch);
    EXPECT_TRUE(carries(flag_lane, with_flag(5, 6, flag), flag));
    for (int bit = 0; bit < 64; ++bit) {
      const std::uint64_t flipped = flag ^ std::uint64_t{1} << bit;
      EXPECT_FALSE(carries(flag_lane, with_flag(5, 6, flipped), flag)) << "bit " << bit;
      for (std::uint64_t n = 1; n <= 1000; ++n) {
        ASSERT_NE(flipped, line_flag(epoch + n));
        ASSERT_NE(flipped, line_flag(epoch - n));
      }
    }
  }
}

TEST(line, memory_of_zeros_is_of_no_round_that_there_is) {
  EXPECT_FALSE(carries(flag_lane, vec16{}, line_flag(1)));
  EXPECT_EQ(line_flag(0), 0u) << "before the first";
}

TEST(line, lanes_without_a_flag_have_nothing_against_its_arrival) {
  int flags = 0;
  for (int lane = 0; lane < warp_lanes; ++lane) {
    flags += holds_flag(lane) ? 1 : 0;
    EXPECT_EQ(carries(lane, vec16{}, line_flag(1)), !holds_flag(lane));
  }
  EXPECT_EQ(flags, lines_of_access);
}

}  // namespace
}  // namespace baton
