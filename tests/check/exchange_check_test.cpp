// The four kernels of the exchange in every schedule of tiny cases, both policies; and mutants.
#include <gtest/gtest.h>

#include <iostream>

#include "tests/check/exchange_exploration.hpp"

namespace baton {
namespace {

using check::verdict;

template <class Policy>
class exchange_check : public testing::Test {};
using policies = testing::Types<epoch_arrival, sentinel_arrival>;
class policy_names {
 public:
  template <class Policy>
  static std::string GetName(int) {
    return Policy::restores ? "sentinel" : "epoch";
  }
};
TYPED_TEST_SUITE(exchange_check, policies, policy_names);

template <class Policy>
void expect_holds(const exchange_setting& e, const check::bounds& limits = {}) {
  const check::result r = check_exchange<Policy>(e, limits);
  EXPECT_TRUE(r.holds()) << r.summary() << "\n" << r.text << "\n" << r.counterexample;
  std::cout << e.ranks << " ranks, " << e.warps << " warps a block, " << e.rounds
            << " rounds: " << r.summary() << "\n";
}

void expect_killed(const check::result& r, const std::set<verdict>& by) {
  EXPECT_TRUE(by.contains(r.found)) << r.summary() << "\n" << r.text << "\n" << r.counterexample;
}

TYPED_TEST(exchange_check, two_ranks_of_one_block_four_rounds) {
  expect_holds<TypeParam>({.rounds = 4});
}

TYPED_TEST(exchange_check, three_ranks_of_one_block_three_rounds) {
  expect_holds<TypeParam>(
      {.ranks = 3, .blocks = {1, 1, 1}, .experts = 4, .top_k = 2, .tokens = 2, .rounds = 3});
}

TYPED_TEST(exchange_check, two_warps_a_block_one_round) {
  expect_holds<TypeParam>({.warps = 2, .experts = 3, .tokens = 2, .rounds = 1});
}

TYPED_TEST(exchange_check, two_blocks_on_one_rank_three_rounds) {
  expect_holds<TypeParam>({.blocks = {2, 1}, .experts = 2, .tokens = 2, .rounds = 3});
}

TYPED_TEST(exchange_check, two_blocks_on_both_ranks_two_rounds) {
  expect_holds<TypeParam>({.blocks = {2, 2}, .experts = 2, .tokens = 2, .rounds = 2});
}

TYPED_TEST(exchange_check, two_blocks_that_share_experts_one_round) {
  expect_holds<TypeParam>({.blocks = {2, 1}, .experts = 2, .top_k = 2, .tokens = 2, .rounds = 1});
}

check::bounds any_wait_may_give_up() {
  check::bounds limits;
  limits.may_time_out = [](const wait_site&) { return true; };
  return limits;
}

TYPED_TEST(exchange_check, a_rank_that_gives_up_leaves_the_others_right_or_waiting) {
  expect_holds<TypeParam>({.rounds = 2}, any_wait_may_give_up());
}

TYPED_TEST(exchange_check, mutant_kernels_that_run_after_their_rank_gave_up_are_killed) {
  expect_killed(check_exchange<TypeParam>({.rounds = 2, .is_blind = true}, any_wait_may_give_up()),
                {verdict::data_race, verdict::broken_promise});
}

constexpr auto lost = {verdict::data_race, verdict::broken_promise};
const exchange_setting contended{.blocks = {2, 1}, .tokens = 2, .rounds = 2};

TYPED_TEST(exchange_check, mutant_relaxed_release_stores_are_killed) {
  expect_killed(check_exchange<TypeParam, weakening::release_store_relaxed>({}), lost);
}

TYPED_TEST(exchange_check, mutant_narrow_release_stores_are_killed) {
  expect_killed(check_exchange<TypeParam, weakening::release_store_narrow>({}), {verdict::scope_race});
}

TYPED_TEST(exchange_check, mutant_relaxed_waits_are_killed) {
  expect_killed(check_exchange<TypeParam, weakening::wait_relaxed>({}), lost);
}

TYPED_TEST(exchange_check, mutant_counting_without_release_is_killed) {
  expect_killed(check_exchange<TypeParam, weakening::add_without_release>(contended), lost);
}

TYPED_TEST(exchange_check, mutant_counting_without_acquire_is_killed) {
  expect_killed(check_exchange<TypeParam, weakening::add_without_acquire>(contended), lost);
}

TYPED_TEST(exchange_check, mutant_counting_at_block_scope_is_killed) {
  expect_killed(check_exchange<TypeParam, weakening::add_narrow>(contended), {verdict::scope_race});
}

TYPED_TEST(exchange_check, mutant_cells_that_do_not_restore_themselves_are_killed) {
  expect_killed(check_exchange<TypeParam, weakening::relaxed_store_lost>(contended),
                {verdict::data_race, verdict::broken_promise, verdict::deadlock});
}

}  // namespace
}  // namespace baton
