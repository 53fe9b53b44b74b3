// The exchange under adversarial schedules: every warp of every rank interleaved by seed, stores invisible to others
// until a release orders them. Results must not depend on any of it.
#include <tuple>

#include "tests/support/exchange_cases.hpp"
#include "tests/support/simulated_worlds.hpp"

namespace baton::test {
namespace {

sim::options schedule_of(sim::schedule order, std::uint64_t seed) {
  sim::options options;
  options.order = order;
  options.seed = seed;
  options.delay_stores = true;
  return options;
}

/// Empty if all rounds are right under this schedule.
std::string run_under(const sim::options& options, arrival_policy arrival, int rounds) {
  exchange_case c{3, sizes(7, 3, 64, 9), {9, 4, 0}, routing::sparse};
  c.config.arrival = arrival;
  c.config.num_sms = 3;
  auto ranks = make_ranks(simulated_worlds(3, options), c.config);
  for (int round = 1; round <= rounds; ++round) {
    const std::string wrong = run_round(c, ranks, static_cast<std::uint64_t>(round));
    if (!wrong.empty()) return fmt::format("schedule seed {}: {}", options.seed, wrong);
  }
  return {};
}

class exchange_schedules : public testing::TestWithParam<std::tuple<sim::schedule, arrival_policy>> {};

TEST_P(exchange_schedules, results_are_the_same_bits_for_every_seed) {
  const auto [order, arrival] = GetParam();
  for (std::uint64_t seed = 1; seed <= 100; ++seed)
    EXPECT_EQ(run_under(schedule_of(order, seed), arrival, 3), "");
}

INSTANTIATE_TEST_SUITE_P(sim, exchange_schedules,
                         testing::Combine(testing::Values(sim::schedule::random, sim::schedule::priority),
                                          testing::Values(arrival_policy::epoch, arrival_policy::sentinel)));

/// Layout per_rank, fused and apart in turn: empty if all rounds are right under this schedule.
std::string run_per_rank_under(const sim::options& options, ep_transfer transfer, int rounds) {
  exchange_case c{3, sizes(7, 3, 64, 9), {9, 4, 0}, routing::sparse};
  c.config.layout = ep_layout::per_rank;
  c.config.transfer = transfer;
  c.config.num_sms = 2;
  auto ranks = make_ranks(simulated_worlds(3, options), c.config);
  for (int round = 1; round <= rounds; ++round) {
    const calls how = round % 2 == 0 ? calls::apart : calls::fused;
    const std::string wrong = run_round(c, ranks, static_cast<std::uint64_t>(round), how);
    if (!wrong.empty()) return fmt::format("schedule seed {}: {}", options.seed, wrong);
  }
  return {};
}

TEST(exchange_schedules, results_of_per_rank_are_the_same_bits_for_every_seed) {
  for (const sim::schedule order : {sim::schedule::random, sim::schedule::priority})
    for (const ep_transfer transfer : every_transfer)
      for (std::uint64_t seed = 1; seed <= 50; ++seed)
        EXPECT_EQ(run_per_rank_under(schedule_of(order, seed), transfer, 3), "");
}

// The schedules are worth something only if they expose what is wrong.
class planted_bug : public testing::TestWithParam<sim::fault::kind> {};

TEST_P(planted_bug, is_exposed_by_some_schedule) {
  int exposed = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    sim::options options = schedule_of(sim::schedule::random, seed);
    options.faults = {{GetParam(), 1}};
    exposed += run_under(options, arrival_policy::epoch, 2).empty() ? 0 : 1;
  }
  EXPECT_GT(exposed, 0);
  RecordProperty("exposed_of_20", exposed);
}

INSTANTIATE_TEST_SUITE_P(sim, planted_bug,
                         testing::Values(sim::fault::kind::ignores_releases,
                                         sim::fault::kind::releases_to_device_only));

TEST(exchange_schedules, a_slow_rank_changes_nothing) {
  for (int slow = 0; slow < 3; ++slow) {
    sim::options options = schedule_of(sim::schedule::random, 5);
    options.faults = {{sim::fault::kind::slow, slow}};
    EXPECT_EQ(run_under(options, arrival_policy::epoch, 5), "");
    for (const ep_transfer transfer : every_transfer) EXPECT_EQ(run_per_rank_under(options, transfer, 5), "");
  }
}

}  // namespace
}  // namespace baton::test
