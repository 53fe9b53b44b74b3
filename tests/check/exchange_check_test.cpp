// What the registry's table does not say of the exchange: that its failures happen, at every step, and that the
// search which skips schedules sees what the one that does not sees.
#include <gtest/gtest.h>

#include <iostream>

#include "checks/exchange_exploration.hpp"
#include "checks/per_rank_chunks_exploration.hpp"
#include "checks/per_rank_exploration.hpp"

namespace baton::checks {
namespace {

class exchange_check : public testing::TestWithParam<arrival_policy> {
 protected:
  static exchange_setting with_tally(exchange_setting e) {
    e.policy = GetParam();
    e.tally = std::make_shared<exchange_tally>();
    return e;
  }
  static std::uint64_t expect_holds(const exchange_setting& e, const check::bounds& limits = {}) {
    const check::result r = check_exchange(e, limits);
    EXPECT_TRUE(r.holds()) << r.summary() << "\n" << r.text << "\n" << r.counterexample;
    std::cout << r.summary() << "\n";
    return r.executions;
  }
};

INSTANTIATE_TEST_SUITE_P(policies, exchange_check,
                         testing::Values(arrival_policy::epoch, arrival_policy::sentinel),
                         [](const testing::TestParamInfo<arrival_policy>& info) {
                           return std::string{info.param == arrival_policy::epoch ? "epoch" : "sentinel"};
                         });

TEST_P(exchange_check, nobody_gives_up_or_dies_unless_it_may) {
  const exchange_setting e = with_tally({.rounds = 4});
  expect_holds(e);
  EXPECT_EQ(e.tally->exact, 8u);
  EXPECT_EQ(e.tally->gave_up, 0u);
  EXPECT_TRUE(e.tally->died_at.empty());
}

TEST_P(exchange_check, a_dying_rank_dies_at_each_of_its_steps) {
  for (const int rank : {0, 1}) {
    const exchange_setting e = with_tally({.rounds = 2, .gives_up = {at_arrivals}, .dies = rank});
    expect_holds(e);
    EXPECT_GT(e.tally->longest_life, 100);
    EXPECT_EQ(static_cast<int>(e.tally->died_at.size()), e.tally->longest_life);
    EXPECT_EQ(*e.tally->died_at.begin(), 1);
    EXPECT_EQ(*e.tally->died_at.rbegin(), e.tally->longest_life);
    EXPECT_GT(e.tally->exact, 0u);
    EXPECT_GT(e.tally->gave_up, 0u);
  }
}

TEST_P(exchange_check, both_blocks_of_a_dying_rank_die_at_each_of_their_steps) {
  const exchange_setting e =
      with_tally({.blocks = {2, 1}, .tokens = {2}, .rounds = 1, .gives_up = {at_arrivals}, .dies = 0});
  expect_holds(e);
  EXPECT_EQ(static_cast<int>(e.tally->died_at.size()), e.tally->longest_life);
}

TEST_P(exchange_check, sleep_sets_alone_find_no_further_execution) {
  check::bounds slow;
  slow.how = check::reduction::sleep;
  const exchange_setting time_outs{.rounds = 2, .gives_up = {anywhere}};
  const exchange_setting deaths{.rounds = 1, .gives_up = {at_arrivals}, .dies = 1};
  for (const exchange_setting& e : {time_outs, deaths}) {
    const exchange_setting reduced = with_tally(e), full = with_tally(e);
    EXPECT_EQ(expect_holds(reduced), expect_holds(full, slow));
    EXPECT_EQ(reduced.tally->died_at, full.tally->died_at);
  }
}

TEST(exchange_per_rank_check, sleep_sets_alone_find_no_further_execution) {
  check::bounds slow;
  slow.how = check::reduction::sleep;
  for (const exchange_setting& e :
       {exchange_setting{.ranks = 1, .warps = {3}, .rounds = 2},
        exchange_setting{.ranks = 1, .warps = {3}, .rounds = 1, .gives_up = {anywhere}}}) {
    const check::result reduced = check_per_rank(e), full = check_per_rank(e, slow);
    EXPECT_TRUE(reduced.holds() && full.holds()) << reduced.text << full.text;
    EXPECT_EQ(reduced.executions, full.executions);
  }
}

TEST(exchange_chunks_check, sleep_sets_alone_find_no_further_execution) {
  check::bounds slow;
  slow.how = check::reduction::sleep;
  for (const auto& gives_up : {nowhere, anywhere}) {
    const chunks_setting e{{.ranks = 1, .warps = {2}, .rounds = 1, .gives_up = {gives_up}},
                           {.chunk_tokens = 1, .tile_tokens = 1}};
    const check::result reduced = check_per_rank_chunks(e), full = check_per_rank_chunks(e, slow);
    EXPECT_TRUE(reduced.holds() && full.holds()) << reduced.text << full.text;
    EXPECT_EQ(reduced.executions, full.executions);
  }
}

TEST(exchange_chunks_check, takes_are_all_there_is_to_choose_from) {
  chunks_setting e{{.warps = {2}, .rounds = 1, .tally = std::make_shared<exchange_tally>()},
                   {.chunk_tokens = 1, .tile_tokens = 1}};
  EXPECT_GT(check_per_rank_chunks(e).executions, 1000u);
  e.draws = 9;
  EXPECT_EQ(check_per_rank_chunks(e).executions, 9u) << "one schedule for each draw";
  EXPECT_EQ(e.tally->gave_up, 0u);
}

TEST(exchange_per_rank_check, nobody_gives_up_unless_it_may) {
  exchange_setting e{.warps = {3}, .rounds = 2, .tally = std::make_shared<exchange_tally>()};
  EXPECT_TRUE(check_per_rank(e).holds());
  EXPECT_GT(e.tally->exact, 0u);
  EXPECT_EQ(e.tally->gave_up, 0u);
  e.gives_up = {anywhere};
  e.ranks = 1;
  e.looks = 1;
  EXPECT_TRUE(check_per_rank(e).holds());
  EXPECT_GT(e.tally->gave_up, 0u);
}

}  // namespace
}  // namespace baton::checks
