// The tests of the checker would notice if the checker were wrong: each fault that can be planted into it makes
// a litmus program or the comparison of the reductions fail.
#include <gtest/gtest.h>

#include "tests/check/litmus_suite.hpp"
#include "tests/check/random_program.hpp"

namespace baton {
namespace {

using check::planted_fault;

/// The first litmus program that shows something it must not; empty: none.
std::string caught_by_litmus(planted_fault fault) {
  for (const auto how : {check::reduction::none, check::reduction::dpor}) {
    check::bounds limits;
    limits.how = how;
    limits.fault = fault;
    for (const auto& t : litmus::all_tests()) {
      if (!litmus::as_expected(t, litmus::observe(t, limits))) return t.name;
    }
  }
  return {};
}

/// The first random program on which the full search and the faulty reduced one differ; empty: none.
std::string caught_by_comparison(planted_fault fault) {
  std::mt19937 random{4};
  for (int n = 0; n < 800; ++n) {
    const auto program =
        n % 2 == 0 ? litmus::make_random_program(random, false) : litmus::make_random_counts(random);
    check::bounds limits;
    limits.how = check::reduction::none;
    limits.max_executions = 5'000;
    const auto full = litmus::behave(program, limits);
    if (!full.result.complete) continue;
    limits.how = check::reduction::dpor;
    limits.fault = fault;
    if (!litmus::disagreement(program, full, limits).empty()) return program.text();
  }
  return {};
}

class planted_faults : public testing::TestWithParam<planted_fault> {};

TEST_P(planted_faults, are_noticed_by_the_tests_of_the_checker) {
  std::string caught = caught_by_litmus(GetParam());
  if (caught.empty()) caught = caught_by_comparison(GetParam());
  EXPECT_NE(caught, "") << "nothing notices fault " << check::name(GetParam());
  RecordProperty("caught_by", caught);
}

std::string fault_name(const testing::TestParamInfo<planted_fault>& info) {
  return check::name(info.param);
}

INSTANTIATE_TEST_SUITE_P(each, planted_faults, testing::ValuesIn(check::planted_faults), fault_name);

TEST(planted_fault_tests, find_nothing_in_the_checker_as_it_is) {
  EXPECT_EQ(caught_by_litmus(planted_fault::none), "");
  EXPECT_EQ(caught_by_comparison(planted_fault::none), "");
}

}  // namespace
}  // namespace baton
