#include "base/attended_time.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "bootstrap/time_limit.hpp"

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

TEST(time_limit, has_passed_when_nothing_is_left_to_wait_for) {
  const bootstrap::time_limit limit{milliseconds{30}};
  EXPECT_FALSE(limit.passed());
  EXPECT_LE(limit.wait(), milliseconds{30});
  while (limit.wait() > milliseconds{0}) std::this_thread::sleep_for(milliseconds{1});
  EXPECT_TRUE(limit.passed());
  EXPECT_EQ(limit.poll_ms(), 0);
}

TEST(time_limit, never_lets_anybody_wait_longer_than_a_look_may_be_late) {
  const bootstrap::time_limit hour{std::chrono::hours{1}}, none{milliseconds{0}},
      longest{milliseconds::max()};
  for (const bootstrap::time_limit* limit : {&hour, &none, &longest}) {
    EXPECT_EQ(limit->wait(), bootstrap::time_limit::slice);
    EXPECT_FALSE(limit->passed());
  }
}

}  // namespace
}  // namespace baton::test
