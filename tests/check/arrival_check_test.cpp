// protocol/arrival.hpp in every schedule: 2 and 3 ranks, at least 3 rounds of dispatch and combine on the same
// buffers, both policies; and mutants, each of which must be found.
#include <gtest/gtest.h>

#include <iostream>

#include "tests/check/arrival_exploration.hpp"

namespace baton {
namespace {

using check::verdict;

/// Epochs are not compared: whatever is not idle has arrived.
struct any_epoch : epoch_arrival {
  static constexpr bool arrived(std::uint64_t word, std::uint32_t, std::uint32_t) { return word != idle; }
};

/// An epoch of the past is good enough.
struct old_epoch : epoch_arrival {
  static constexpr bool arrived(std::uint64_t word, std::uint32_t epoch, std::uint32_t capacity) {
    return word != idle && static_cast<std::uint32_t>(word >> 32) + 1 >= epoch &&
           static_cast<std::uint32_t>(word) <= capacity;
  }
};

/// The reader does not put the idle value back.
struct never_restored : sentinel_arrival {
  static constexpr bool restores = false;
};

/// The idle value counts as arrived.
struct idle_arrives : sentinel_arrival {
  static constexpr bool arrived(std::uint64_t word, std::uint32_t, std::uint32_t capacity) {
    return word <= capacity || word == idle;
  }
};

template <class Policy>
class arrival_check : public testing::Test {};
using policies = testing::Types<epoch_arrival, sentinel_arrival>;
class policy_names {
 public:
  template <class Policy>
  static std::string GetName(int) {
    return Policy::restores ? "sentinel" : "epoch";
  }
};
TYPED_TEST_SUITE(arrival_check, policies, policy_names);

void expect_holds(const check::result& r, const arrival_setting& s) {
  EXPECT_TRUE(r.holds()) << r.summary() << "\n" << r.text << "\n" << r.counterexample;
  std::cout << s.ranks << " ranks, " << s.rounds << " rounds: " << r.summary() << "\n";
}

void expect_killed(const check::result& r, const std::set<verdict>& by) {
  EXPECT_TRUE(by.contains(r.found)) << r.summary() << "\n" << r.text << "\n" << r.counterexample;
  EXPECT_NE(r.counterexample, "");
}

TYPED_TEST(arrival_check, two_ranks_five_rounds_have_no_race_and_no_deadlock) {
  const arrival_setting s{.ranks = 2, .rounds = 5};
  expect_holds(check_arrival<TypeParam>(s), s);
}

TYPED_TEST(arrival_check, three_ranks_three_rounds_have_no_race_and_no_deadlock) {
  const arrival_setting s{.ranks = 3, .rounds = 3};
  expect_holds(check_arrival<TypeParam>(s), s);
}

TYPED_TEST(arrival_check, the_full_search_without_reduction_agrees_for_two_ranks_and_one_round) {
  const arrival_setting s{.ranks = 2, .rounds = 1};
  expect_holds(check_arrival<TypeParam>(s, {.how = check::reduction::none}), s);
}

TYPED_TEST(arrival_check, a_wait_that_gives_up_leaves_the_others_without_a_race) {
  check::bounds limits;
  limits.may_time_out = [](const wait_site&) { return true; };
  const arrival_setting s{.ranks = 2, .rounds = 3};
  expect_holds(check_arrival<TypeParam>(s, limits), s);
}

TYPED_TEST(arrival_check, mutant_relaxed_publish_is_killed) {
  expect_killed(check_arrival<TypeParam, weakening::release_store_relaxed>({}), {verdict::data_race});
}

TYPED_TEST(arrival_check, mutant_publish_at_device_scope_is_killed) {
  expect_killed(check_arrival<TypeParam, weakening::release_store_narrow>({}), {verdict::scope_race});
}

TYPED_TEST(arrival_check, mutant_relaxed_wait_is_killed) {
  expect_killed(check_arrival<TypeParam, weakening::wait_relaxed>({}), {verdict::data_race});
}

TYPED_TEST(arrival_check, mutant_wait_at_device_scope_is_killed) {
  expect_killed(check_arrival<TypeParam, weakening::wait_narrow>({}), {verdict::scope_race});
}

TYPED_TEST(arrival_check, mutant_publish_before_the_payload_is_killed) {
  expect_killed(check_arrival<TypeParam>({.fault = round_fault::publish_first}), {verdict::data_race});
}

TYPED_TEST(arrival_check, mutant_next_dispatch_without_the_combine_between_is_killed) {
  expect_killed(check_arrival<TypeParam>({.fault = round_fault::no_combine}),
                {verdict::data_race, verdict::deadlock, verdict::broken_promise});
}

TYPED_TEST(arrival_check, mutant_payload_read_after_the_combine_is_published_is_killed) {
  expect_killed(check_arrival<TypeParam>({.fault = round_fault::reads_late}), {verdict::data_race});
}

TYPED_TEST(arrival_check, mutant_wait_for_the_own_word_only_is_killed) {
  expect_killed(check_arrival<TypeParam>({.fault = round_fault::waits_for_itself}), {verdict::data_race});
}

TYPED_TEST(arrival_check, mutant_an_empty_rank_that_publishes_nothing_is_killed) {
  expect_killed(check_arrival<TypeParam>({.fault = round_fault::skips_empty}), {verdict::deadlock});
}

TEST(arrival_check_epoch, mutant_epochs_that_are_not_compared_are_killed) {
  expect_killed(check_arrival<any_epoch>({}), {verdict::data_race, verdict::broken_promise});
}

TEST(arrival_check_epoch, mutant_last_rounds_epoch_accepted_is_killed) {
  expect_killed(check_arrival<old_epoch>({}), {verdict::data_race, verdict::broken_promise});
}

TEST(arrival_check_epoch, mutant_an_epoch_that_never_advances_is_killed) {
  expect_killed(check_arrival<epoch_arrival>({.fault = round_fault::same_epoch}),
                {verdict::data_race, verdict::broken_promise});
}

TEST(arrival_check_sentinel, mutant_a_sentinel_that_is_never_restored_is_killed) {
  expect_killed(check_arrival<never_restored>({}), {verdict::data_race, verdict::broken_promise});
}

TEST(arrival_check_sentinel, mutant_a_lost_restoring_store_is_killed) {
  expect_killed(check_arrival<sentinel_arrival, weakening::relaxed_store_lost>({}),
                {verdict::data_race, verdict::broken_promise});
}

TEST(arrival_check_sentinel, mutant_restored_after_the_next_phase_is_signalled_is_killed) {
  // The late store can bury the count of the next round: its reader then waits for ever.
  expect_killed(check_arrival<sentinel_arrival>({.fault = round_fault::restores_late}), {verdict::deadlock});
}

TEST(arrival_check_sentinel, mutant_an_idle_word_that_counts_as_arrived_is_killed) {
  expect_killed(check_arrival<idle_arrives>({}), {verdict::data_race, verdict::broken_promise});
}

}  // namespace
}  // namespace baton
