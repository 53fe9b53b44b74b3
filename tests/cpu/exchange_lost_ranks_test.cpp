// A rank that is lost at any point of a round, with ranks beyond the p2p group: whatever each survivor waits for, it names that
// one.
#include <chrono>
#include <map>

#include "baton/error.hpp"
#include "tests/support/exchange_in_groups.hpp"
#include "tests/support/killed_in_rounds.hpp"
#include "tests/support/simulated_worlds.hpp"
#include "tests/support/stuck_rounds.hpp"

namespace baton::test {
namespace {

class exchange_lost_ranks : public testing::TestWithParam<way_beyond> {};
INSTANTIATE_TEST_SUITE_P(cpu, exchange_lost_ranks, testing::ValuesIn(every_way_beyond),
                         [](const auto& way) { return way.param.name(); });

/// What survivors of a rank that dies at a step are told.
struct told_of_losses {
  std::map<std::string, int> sites;
  int unharmed = 0, in_turn = 0;

  void add(const stuck& e, int lost, const std::string& when) {
    EXPECT_EQ(e.where.peer, lost) << when << ": " << e.what();
    ++sites[e.where.site];
    in_turn += std::string{e.what()}.find("waited in turn") != std::string::npos ? 1 : 0;
  }
};

void run_without(int lost, std::uint64_t step, const exchange_case& c, told_of_losses& told) {
  sim::options options = late_puts(sim::schedule::random, step + 1);
  options.faults = {{sim::fault::kind::dies_at_step, lost, step}};
  auto ranks = make_ranks(simulated_worlds(c.ranks, options), c.config);
  const auto found = run_until_stuck(ranks, c, [&](int r, const stuck& e) {
    told.add(e, lost, fmt::format("rank {} dies at step {}, rank {}", lost, step, r));
  });
  for (int r = 0; r < c.ranks; ++r)
    told.unharmed += r != lost && found[static_cast<std::size_t>(r)].peer == -2 ? 1 : 0;
}

TEST_P(exchange_lost_ranks, that_die_at_any_step_are_named_by_every_survivor) {
  const exchange_case c = GetParam().of(case_of_eight_experts(4));
  told_of_losses told;
  for (std::uint64_t step = 0; step < 260; step += 5)
    run_without(static_cast<int>(step / 5 % 4), step, c, told);
  EXPECT_GT(told.unharmed, 0);
  if (GetParam().layout == ep_layout::per_rank) {
    EXPECT_GT(told.in_turn, 0) << "nobody waited for a survivor";
  }
  for (const auto& [site, times] : told.sites) RecordProperty(site, times);
  RecordProperty("waited_for_a_survivor", told.in_turn);
}

TEST_P(exchange_lost_ranks, of_processes_that_are_killed_in_a_round_are_named_by_every_survivor) {
  const way_beyond& way = GetParam();
  const exchange_case c = way.of({4, sizes(8, 6, 64, 5), {5, 5, 5, 5}, routing::distinct});
  expect_the_killed_named_in_rounds(c, device_kind::cpu, 1, std::chrono::milliseconds{20 + 3 * way.group});
}

/// All survivors hear of each other as soon as the last has given up.
TEST_P(exchange_lost_ranks, that_never_come_are_named_without_waiting_longer) {
  const exchange_case c = GetParam().of(case_of_eight_experts(4));
  sim::options options;
  options.faults = {{sim::fault::kind::never_launches, 2}};
  const auto worlds = simulated_worlds(4, options);
  auto ranks = make_ranks(worlds, c.config);
  const auto found = run_until_stuck(ranks, c);
  for (const std::size_t r : {0, 1, 3}) EXPECT_EQ(found[r].peer, 2);
  EXPECT_LT(worlds.front().state().machine->now_ns(), 40'000'000'000u);
}

/// Two are lost, and each survivor names one of them. Of those two one may have given up before it dies, and hear no more.
TEST_P(exchange_lost_ranks, of_which_there_are_two_are_not_taken_for_survivors) {
  const exchange_case c = GetParam().of(case_of_eight_experts(4));
  for (std::uint64_t step = 0; step < 240; step += 20) {
    sim::options options = late_puts(sim::schedule::random, step + 1);
    options.faults = {{sim::fault::kind::dies_at_step, 1, step}, {sim::fault::kind::dies_at_step, 2, step}};
    auto ranks = make_ranks(simulated_worlds(4, options), c.config);
    run_until_stuck(ranks, c, [&](int r, const stuck& e) {
      if (r == 1 || r == 2) return;
      EXPECT_TRUE(e.where.peer == 1 || e.where.peer == 2)
          << "step " << step << ", rank " << r << ": " << e.what();
    });
  }
}

}  // namespace
}  // namespace baton::test
