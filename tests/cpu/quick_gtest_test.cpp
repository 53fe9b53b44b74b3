// Assertions that fail say what GoogleTest says, and tests with parameters have the names that it gives them, whether they are
// its own or those of tests/support/quick_gtest.hpp.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace baton {
namespace {

testing::AssertionResult is_even(int n) {
  return n % 2 == 0 ? testing::AssertionSuccess() : testing::AssertionFailure() << n << " is odd";
}

TEST(assertions, of_equal_things_show_both) {
  const int one = 1;
  const std::string word = "word";
  EXPECT_NONFATAL_FAILURE(EXPECT_EQ(one, 2),
                          "Expected equality of these values:\n  one\n    Which is: 1\n  2");
  EXPECT_NONFATAL_FAILURE(EXPECT_EQ(word, "another"), "  word\n    Which is: \"word\"\n  \"another\"");
  EXPECT_NONFATAL_FAILURE(EXPECT_EQ(std::vector<int>{one}, (std::vector<int>{1, 2})), "Which is: { 1, 2 }");
  EXPECT_NONFATAL_FAILURE(EXPECT_EQ(nullptr, &one), "&one");
}

TEST(assertions, of_order_show_both) {
  const int one = 1;
  EXPECT_NONFATAL_FAILURE(EXPECT_NE(one, 1), "Expected: (one) != (1), actual: 1 vs 1");
  EXPECT_NONFATAL_FAILURE(EXPECT_LT(one, 1), "Expected: (one) < (1), actual: 1 vs 1");
  EXPECT_NONFATAL_FAILURE(EXPECT_LE(one, 0), "Expected: (one) <= (0), actual: 1 vs 0");
  EXPECT_NONFATAL_FAILURE(EXPECT_GT(one, 1), "Expected: (one) > (1), actual: 1 vs 1");
  EXPECT_NONFATAL_FAILURE(EXPECT_GE(one, 2), "Expected: (one) >= (2), actual: 1 vs 2");
}

TEST(assertions, of_truth_show_what_was_asked_and_why_it_is_not) {
  const std::unique_ptr<int> nothing;
  EXPECT_NONFATAL_FAILURE(EXPECT_TRUE(1 > 2), "Value of: 1 > 2\n  Actual: false\nExpected: true");
  EXPECT_NONFATAL_FAILURE(EXPECT_FALSE(1 < 2), "Value of: 1 < 2\n  Actual: true\nExpected: false");
  EXPECT_NONFATAL_FAILURE(EXPECT_TRUE(nothing), "Value of: nothing\n  Actual: false\nExpected: true");
  EXPECT_NONFATAL_FAILURE(EXPECT_TRUE(is_even(3)), "Actual: false (3 is odd)\nExpected: true");
  EXPECT_NONFATAL_FAILURE(EXPECT_FALSE(is_even(4)), "Actual: true\nExpected: false");
}

TEST(assertions, show_what_a_test_adds_and_nothing_more_if_they_hold) {
  const char* none = nullptr;
  EXPECT_NONFATAL_FAILURE(EXPECT_EQ(1, 2) << "rank " << 3 << ", " << true << ", " << none << ", " << 0.1,
                          "\nrank 3, true, (null), 0.1");
  int said = 0;
  EXPECT_EQ(1, 1) << ++said;
  EXPECT_TRUE(is_even(2)) << ++said;
  if (said == 0)
    EXPECT_LT(said, 1) << ++said;
  else
    ADD_FAILURE() << "an assertion took the else of an if around it";
  EXPECT_EQ(said, 0);
}

void stops_at(int which) {
  ASSERT_EQ(which == 0, false) << "the first";
  ASSERT_NE(which, 1) << "the second";
  ASSERT_TRUE(which != 2) << "the third";
  ASSERT_FALSE(which == 3) << "the fourth";
  ASSERT_LT(which, 4) << "the fifth";
}

TEST(assertions, that_are_fatal_end_their_function) {
  EXPECT_FATAL_FAILURE(stops_at(0), "the first");
  EXPECT_FATAL_FAILURE(stops_at(1), "the second");
  EXPECT_FATAL_FAILURE(stops_at(2), "the third");
  EXPECT_FATAL_FAILURE(stops_at(3), "the fourth");
  EXPECT_FATAL_FAILURE(stops_at(4), "the fifth");
}

/// Its parameter is there when it is made.
class given : public testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  int number = std::get<0>(GetParam());
};

TEST_P(given, a_test_has_the_name_and_the_text_of_what_it_was_given) {
  const testing::TestInfo& me = *testing::UnitTest::GetInstance()->current_test_info();
  const std::string name = me.name(), suite = me.test_suite_name();
  const bool flag = std::get<1>(GetParam());
  const std::string beginning = "a_test_has_the_name_and_the_text_of_what_it_was_given/";
  if (suite == "of_names/given")
    EXPECT_EQ(name, beginning + (flag ? "yes_" : "no_") + std::to_string(number));
  else if (suite == "of_numbers/given")
    EXPECT_EQ(name, beginning + std::to_string((number - 1) * 2 + (flag ? 1 : 0)));
  else
    EXPECT_EQ(suite + name, "given" + beginning + "0");
  EXPECT_EQ(std::string{me.value_param()}, testing::PrintToString(GetParam()));
}

const std::vector<std::tuple<int, bool>> some{{3, true}, {4, false}};
INSTANTIATE_TEST_SUITE_P(of_names, given, testing::ValuesIn(some), [](const auto& of) {
  return (std::get<1>(of.param) ? "yes_" : "no_") + std::to_string(std::get<0>(of.param));
});
INSTANTIATE_TEST_SUITE_P(of_numbers, given, testing::Combine(testing::Range(1, 3), testing::Bool()));
INSTANTIATE_TEST_SUITE_P(, given, testing::Values(std::tuple{9, true}));

TEST(assertions, evaluate_what_they_compare_once) {
  int times = 0;
  EXPECT_EQ(++times, 1);
  EXPECT_TRUE(++times == 2);
  EXPECT_NONFATAL_FAILURE(EXPECT_EQ(++times, 0), "++times");
  EXPECT_EQ(times, 3);
}

}  // namespace
}  // namespace baton
