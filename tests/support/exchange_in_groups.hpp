#pragma once
// Rounds with ranks beyond the p2p group, whatever the layout, through the simulated network.
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "baton/error.hpp"
#include "tests/support/exchange_cases.hpp"
#include "tests/support/simulated_worlds.hpp"
#include "tests/support/stuck_rounds.hpp"

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

/// rounds(options) goes wrong under some schedule in which rank 1's kernels fence no puts.
template <class Rounds>
void expect_exposed_without_fences(Rounds rounds) {
  int exposed = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    sim::options options = late_puts(sim::schedule::random, seed);
    options.faults = {{sim::fault::kind::forgets_fences, 1}};
    exposed += rounds(options).empty() ? 0 : 1;
  }
  EXPECT_GT(exposed, 0);
  testing::Test::RecordProperty("exposed_of_20", exposed);
}

/// A rank of four that never comes, or that no put reaches, is named by every survivor: at `site` by those whom stores of its do
/// not reach. in_groups_of(size, case) is the case in groups.
template <class InGroupsOf>
void expect_lost_ranks_named_at(const std::string& site, InGroupsOf in_groups_of) {
  using kind = sim::fault::kind;
  for (const int group : {1, 2})
    for (const kind how : {kind::never_launches, kind::is_cut_off})
      for (const int lost : {0, 3}) {
        const bool has_neighbours = group > 1 && how == kind::is_cut_off;  // whom stores still reach
        sim::options options;
        options.faults = {{how, lost}};
        const exchange_case c = in_groups_of(group, case_of_eight_experts(4));
        auto ranks = make_ranks(simulated_worlds(4, options), c.config);
        const auto found = run_until_stuck(ranks, c);
        for (int r = 0; r < 4; ++r) {
          if (r == lost) continue;
          EXPECT_EQ(found[static_cast<std::size_t>(r)].peer, lost) << "rank " << r << ", groups of " << group;
          if (has_neighbours && r / group == lost / group) continue;
          EXPECT_EQ(found[static_cast<std::size_t>(r)].site, site);
          EXPECT_EQ(found[static_cast<std::size_t>(r)].epoch, 1u);
        }
      }
}

/// Rounds of seeds from 1 on, of which one is fused, with rows by expert and by token: what must come is the same, and worked out
/// once.
inline void expect_both_orders_are_right(std::span<const world> worlds, const exchange_case& by_expert,
                                         std::uint64_t seeds, std::uint64_t fused) {
  ep_config by_token = by_expert.config;
  by_token.rows = ep_rows::by_token;
  std::vector<std::vector<exchange_rank>> all;
  for (const ep_config& config : {by_expert.config, by_token}) all.push_back(make_ranks(worlds, config));
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const auto inputs = draw_inputs(by_expert, seed);
    const expected_round round{by_expert, inputs};
    for (std::size_t rows = 0; rows < 2; ++rows)
      EXPECT_EQ(run_round(round, all[rows], seed == fused ? calls::fused : calls::apart), "") << rows;
  }
}

}  // namespace baton::test
