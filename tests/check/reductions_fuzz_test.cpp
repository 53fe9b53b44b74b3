// The reductions must not lose anything: on random programs they agree with the full search.
#include <gtest/gtest.h>

#include <iostream>

#include "tests/check/random_program.hpp"

namespace baton {
namespace {

struct tally {
  int compared = 0, wrong = 0, too_large = 0;
  std::uint64_t full = 0, sleep = 0, dpor = 0;
};

using maker = litmus::random_program (*)(std::mt19937&);
litmus::random_program atomic_program(std::mt19937& random) {
  return litmus::make_random_program(random, false);
}
litmus::random_program mixed_program(std::mt19937& random) {
  return litmus::make_random_program(random, true);
}

tally compare(int programs, unsigned seed, maker make, bool time_outs) {
  std::mt19937 random{seed};
  tally t;
  for (int n = 0; n < programs; ++n) {
    const auto program = make(random);
    check::bounds limits;
    if (time_outs) limits.may_time_out = [](const wait_site&) { return true; };
    limits.how = check::reduction::none;
    limits.max_executions = 20'000;
    const auto full = litmus::behave(program, limits);
    if (!full.result.complete && full.result.found == check::verdict::none) {
      ++t.too_large;
      continue;
    }
    ++t.compared;
    t.wrong += full.result.found != check::verdict::none ? 1 : 0;
    t.full += full.result.executions;
    for (const auto how : {check::reduction::sleep, check::reduction::dpor}) {
      limits.how = how;
      const std::string differs = litmus::disagreement(program, full, limits);
      EXPECT_EQ(differs, "") << "seed " << seed << ", program " << n << ", reduction "
                             << static_cast<int>(how);
      if (!differs.empty()) return t;
    }
  }
  std::cout << t.compared << " programs (" << t.wrong << " of them wrong, " << t.too_large
            << " more too large to compare), " << t.full << " executions in full\n";
  return t;
}

TEST(reductions, agree_with_the_full_search_on_atomic_programs) {
  EXPECT_GT(compare(1500, 1, atomic_program, false).compared, 1000);
}

TEST(reductions, agree_with_the_full_search_on_programs_with_plain_accesses_and_fences) {
  const tally t = compare(3000, 2, mixed_program, false);
  EXPECT_GT(t.wrong, 300);
  EXPECT_GT(t.compared - t.wrong, 300);
}

TEST(reductions, agree_with_the_full_search_on_programs_of_arrivals_and_phases) {
  const tally t = compare(6000, 5, litmus::make_random_phases, false);
  EXPECT_GT(t.wrong, 300);
  EXPECT_GT(t.compared - t.wrong, 300);
}

TEST(reductions, agree_with_the_full_search_on_phases_when_waits_may_give_up) {
  EXPECT_GT(compare(2000, 6, litmus::make_random_phases, true).compared, 500);
}

/// Only values: what races are seen depends on the path to a state.
bool is_race(check::verdict v) {
  return v == check::verdict::data_race || v == check::verdict::scope_race ||
         v == check::verdict::mbarrier_misuse;
}

TEST(states, are_all_found_that_sequentially_consistent_schedules_reach) {
  std::mt19937 random{7};
  int compared = 0;
  std::uint64_t states = 0, full_steps = 0;
  for (int n = 0; n < 1200; ++n) {
    const auto program = n % 2 == 0 ? litmus::make_random_phases(random) : mixed_program(random);
    check::bounds limits;
    limits.how = check::reduction::none;
    limits.fault = check::planted_fault::newest_only;
    limits.max_executions = 20'000;
    const auto full = litmus::behave(program, limits);
    if (is_race(full.result.found) || (!full.result.complete && full.result.found == check::verdict::none))
      continue;
    ++compared;
    limits = {};
    limits.how = check::reduction::states;
    EXPECT_EQ(litmus::disagreement(program, full, limits), "") << "program " << n;
    states += litmus::behave(program, limits).result.states;
    full_steps += full.result.steps;
  }
  EXPECT_GT(compared, 300);
  EXPECT_LT(states, full_steps);
}

TEST(states, go_further_than_schedules) {
  check::bounds limits;
  limits.how = check::reduction::states;
  const auto r = check::explore(limits, [](check::program& p) {
    auto* counter = p.allocate<std::uint32_t>(2, "counter");
    for (int block = 0; block < 5; ++block) {
      p.spawn(0, block, 0, [=](check::context& x) {
        for (int i = 0; i < 4; ++i) x.fetch_add<order::acq_rel, scope::device>(counter + i % 2, 1u);
      });
    }
    p.at_end([=, &p] { p.require(counter[0] == 10 && counter[1] == 10, "nothing is lost"); });
  });
  EXPECT_TRUE(r.holds()) << r.text;
  EXPECT_LT(r.states, 10'000u);  // of 20! / 4!^5 schedules
}

TEST(random_schedules, find_a_rare_outcome_by_seed_and_repeat_it) {
  const auto lost_update = [](check::program& p) {
    auto* word = p.allocate<std::uint32_t>(1, "word");
    for (int rank = 0; rank < 2; ++rank) {
      p.spawn(rank, 0, 0, [=](check::context& x) {
        const auto before = x.load<order::acquire, scope::system>(word);
        x.store<order::release, scope::system>(word, before + 1);
      });
    }
    p.at_end([=, &p] { p.require(*word == 2, "nothing is lost"); });
  };
  check::bounds limits;
  limits.how = check::reduction::random;
  limits.max_executions = 200;
  const auto first = check::explore(limits, lost_update), again = check::explore(limits, lost_update);
  EXPECT_EQ(first.found, check::verdict::broken_promise);
  EXPECT_EQ(first.executions, again.executions);
  EXPECT_EQ(first.counterexample, again.counterexample);
  EXPECT_FALSE(first.complete);
}

TEST(reductions, agree_with_the_full_search_when_waits_may_give_up) {
  EXPECT_GT(compare(800, 3, mixed_program, true).compared, 500);
}

}  // namespace
}  // namespace baton
