#pragma once
// Rounds with ranks beyond the p2p group, whatever the layout, through the simulated network.
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "baton/error.hpp"
#include "tests/support/exchange_cases.hpp"
#include "tests/support/simulated_worlds.hpp"

namespace baton::test {

/// What a round gives each rank.
inline std::vector<std::vector<float>> outputs_of(const exchange_case& c) {
  auto ranks = make_ranks(simulated_worlds(c.ranks, {}), c.config);
  EXPECT_EQ(run_round(c, ranks, 7), "");
  std::vector<std::vector<float>> all;
  for (auto& r : ranks) all.push_back(r.read_output());
  return all;
}

/// Parts of puts come as late as they like.
inline sim::options late_puts(sim::schedule order, std::uint64_t seed) {
  return {.order = order, .seed = seed, .delay_stores = true, .faults = {}};
}

/// Few tokens and holes, for many schedules.
inline exchange_case case_of_late_puts(int ranks) {
  exchange_case c{ranks, sizes(7, 3, 264, 9), {9, 4, 0}, routing::sparse};
  c.tokens.resize(static_cast<std::size_t>(ranks), 5);
  c.config.num_sms = 2;
  return c;
}

/// Empty if three rounds are right under this schedule.
inline std::string rounds_under(const sim::options& options, const exchange_case& c) {
  auto all = make_ranks(simulated_worlds(c.ranks, options), c.config);
  for (std::uint64_t round = 1; round <= 3; ++round) try {
      if (const std::string wrong = run_round(c, all, round); !wrong.empty())
        return fmt::format("schedule seed {}: {}", options.seed, wrong);
    } catch (const error& e) {
      return e.what();
    }
  return {};
}

}  // namespace baton::test
