#include "base/attended_time.hpp"

#include <gtest/gtest.h>

namespace baton::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(attended_time, counts_all_time_between_looks_that_are_close) {
  const attended_time::clock::time_point start{seconds{100}};
  attended_time waited{start};
  EXPECT_EQ(waited.look(start), seconds{0});
  for (int i = 1; i <= 10; ++i) EXPECT_EQ(waited.look(start + i * milliseconds{499}), i * milliseconds{499});
}

TEST(attended_time, counts_a_time_in_which_nobody_looked_as_one_short_gap) {
  const attended_time::clock::time_point start{seconds{100}};
  attended_time waited{start};
  EXPECT_EQ(waited.look(start + milliseconds{200}), milliseconds{200});
  EXPECT_EQ(waited.look(start + seconds{3600}), milliseconds{200} + attended_time::longest_gap);
  EXPECT_EQ(waited.look(start + seconds{3600} + milliseconds{1}),
            milliseconds{201} + attended_time::longest_gap);
}

}  // namespace
}  // namespace baton::test
