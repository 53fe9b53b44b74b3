// The reductions must not lose anything: on random programs they agree with the full search.
#include <gtest/gtest.h>

#include <iostream>

#include "tests/check/random_program.hpp"

namespace baton {
namespace {

struct search_tally {
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

search_tally compare(int programs, unsigned seed, maker make, bool time_outs, int resident_blocks = 0) {
  std::mt19937 random{seed};
  search_tally t;
  for (int n = 0; n < programs; ++n) {
    const auto program = make(random);
    check::bounds limits;
    if (time_outs) limits.may_time_out = [](const wait_site&) { return true; };
    limits.how = check::reduction::none;
    limits.resident_blocks = resident_blocks;
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
  const search_tally t = compare(3000, 2, mixed_program, false);
  EXPECT_GT(t.wrong, 300);
  EXPECT_GT(t.compared - t.wrong, 300);
}

TEST(reductions, agree_with_the_full_search_on_programs_of_arrivals_and_phases) {
  const search_tally t = compare(6000, 5, litmus::make_random_phases, false);
  EXPECT_GT(t.wrong, 300);
  EXPECT_GT(t.compared - t.wrong, 300);
}

TEST(reductions, agree_with_the_full_search_on_programs_that_count) {
  const search_tally t = compare(4000, 8, litmus::make_random_counts, false);
  EXPECT_GT(t.wrong, 300);
  EXPECT_GT(t.compared - t.wrong, 300);
}

TEST(reductions, agree_with_the_full_search_when_blocks_wait_for_a_place) {
  EXPECT_GT(compare(1500, 9, litmus::make_random_counts, false, 1).compared, 1000);
  EXPECT_GT(compare(1500, 10, litmus::make_random_counts, false, 2).compared, 1000);
}

/// What a count hides from the program, and from the search, nobody could have used.
TEST(counts, show_what_read_modify_writes_that_tell_the_same_show) {
  std::mt19937 random{11};
  int compared = 0;
  for (int n = 0; n < 3000; ++n) {
    auto program = litmus::make_random_counts(random);
    check::bounds limits;
    limits.max_executions = 20'000;
    const auto counts = litmus::behave(program, limits);
    program.by_fetch_add = true;
    limits.how = check::reduction::none;
    const auto adds = litmus::behave(program, limits);
    const bool wrong = counts.result.found != check::verdict::none;
    const bool is_wrong = adds.result.found != check::verdict::none;
    if (!adds.result.complete && !is_wrong) continue;
    EXPECT_TRUE(wrong || !is_wrong) << program.text() << adds.result.text;
    if (wrong) continue;
    ++compared;
    EXPECT_EQ(counts.outcomes, adds.outcomes) << program.text();
  }
  EXPECT_GT(compared, 500);
}

TEST(reductions, agree_with_the_full_search_on_phases_when_waits_may_give_up) {
  EXPECT_GT(compare(800, 6, litmus::make_random_phases, true).compared, 500);
}

TEST(random_schedules, find_a_rare_outcome_by_seed_and_repeat_it) {
  const auto lost_update = [](check::program& p) {
    auto* word = p.allocate<std::uint32_t>(1, "word");
    for (int rank = 0; rank < 2; ++rank) {
      p.spawn(rank, 0, 0, [=](check::context& x) {
        const auto before = x.load<order::acquire, scope::system>(word);
        x.exchange<order::acq_rel, scope::system>(word, before + 1);
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
