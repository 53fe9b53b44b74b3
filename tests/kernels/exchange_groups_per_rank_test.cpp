// Ranks beyond the p2p group with layout per_rank: chunks, ids and sums through the simulated network, whose puts come in any
// order but for fences.
#include "baton/error.hpp"
#include "kernels/ep/per_rank_chunks/grid.hpp"
#include "tests/support/exchange_cases.hpp"
#include "tests/support/exchange_in_groups.hpp"
#include "tests/support/exchange_processes.hpp"
#include "tests/support/simulated_worlds.hpp"
#include "tests/support/stuck_rounds.hpp"

namespace baton::test {
namespace {

exchange_case by_rank_in_groups_of(int size, const exchange_case& c, ep_rows rows = ep_rows::by_expert) {
  exchange_case all = c;
  all.config.layout = ep_layout::per_rank;
  all.config.rows = rows;
  all.config.p2p_group_size = size;
  return all;
}

TEST(exchange_groups_per_rank, rounds_are_right_in_every_case) {
  for (const auto& [ranks, group] : std::vector<std::pair<int, int>>{{2, 1}, {3, 2}, {4, 2}, {8, 3}}) {
    const auto worlds = world::local(ranks, device_kind::cpu);
    for (const named_case& c : conformance_cases(ranks)) {
      SCOPED_TRACE(fmt::format("{}, {} ranks, groups of {}", c.name, ranks, group));
      expect_both_orders_are_right(worlds, by_rank_in_groups_of(group, c.what), 3, 2);
    }
  }
}

TEST(exchange_groups_per_rank, every_format_travels_out_and_back) {
  const auto worlds = world::local(4, device_kind::cpu);
  for (const token_format format : {token_format::bf16, token_format::blockwise_fp8, token_format::mxfp8,
                                    token_format::mxfp4, token_format::nvfp4})
    for (const token_format back : {token_format::bf16, token_format::blockwise_fp8})
      for (const int group : {1, 2}) {
        exchange_case c{4, sizes(8, 2, 640, 6), {6, 6, 6, 6}, routing::distinct};
        c = by_rank_in_groups_of(group, with(c, format, arrival_policy::epoch));
        c.config.combine_format = back;
        auto ranks = make_ranks(worlds, c.config);
        for (std::uint64_t seed = 1; seed <= 3; ++seed)
          EXPECT_EQ(run_round(c, ranks, seed), "") << name(format) << ", groups of " << group;
      }
}

TEST(exchange_groups_per_rank, results_are_the_bits_of_one_group) {
  const exchange_case c{4, sizes(13, 5, 264, 17), {3, 8, 0, 17}, routing::sparse};
  const auto expected = outputs_of(by_rank_in_groups_of(0, c));
  for (const int group : {1, 2, 3}) EXPECT_EQ(outputs_of(by_rank_in_groups_of(group, c)), expected) << group;
}

std::string rounds_by_rank_under(const sim::options& options, int ranks, int group) {
  return rounds_under(options, by_rank_in_groups_of(group, case_of_late_puts(ranks)));
}

TEST(exchange_groups_per_rank, results_are_the_same_bits_however_puts_are_reordered) {
  for (const sim::schedule order : {sim::schedule::random, sim::schedule::priority})
    for (std::uint64_t seed = 1; seed <= 25; ++seed) {
      EXPECT_EQ(rounds_by_rank_under(late_puts(order, seed), 2, 1), "");
      EXPECT_EQ(rounds_by_rank_under(late_puts(order, seed), 3, 2), "");
      EXPECT_EQ(rounds_by_rank_under(late_puts(order, seed), 4, 2), "");
    }
}

TEST(exchange_groups_per_rank, a_word_that_overtakes_its_put_is_exposed_by_some_schedule) {
  expect_exposed_without_fences(
      [](const sim::options& options) { return rounds_by_rank_under(options, 2, 1); });
}

TEST(exchange_groups_per_rank, a_rank_that_is_lost_is_named_by_every_survivor_at_the_same_place) {
  expect_lost_ranks_named_at(
      "dispatch.ids", [](int group, const exchange_case& c) { return by_rank_in_groups_of(group, c); });
}

TEST(exchange_groups_per_rank, processes_put_into_each_others_memory) {
  const auto results = in_worlds_of_three(5000, 2, [&](int nth, int rank, const std::string& run) {
    set_launch_environment(rank, 3, run);
    const exchange_case c =
        by_rank_in_groups_of(nth + 1, {3, sizes(6, 6, 64, 5), {5, 5, 5}, routing::distinct});
    exchange_rank mine{expert_parallel::create(world::from_environment(device_kind::cpu), c.config)};
    for (std::uint64_t round = 1; round <= 2; ++round) expect_no_error(run_rank(c, mine, round));
    mine.ranks().synchronize();
    return true;
  });
  for (std::size_t i = 0; i < results.size(); ++i)
    EXPECT_EQ(results[i].exit_code, 0)
        << "world " << i / 3 << ", rank " << i % 3 << ": " << results[i].thrown;
}

TEST(exchange_groups_per_rank, lines_and_members_beyond_the_group_are_refused_by_name) {
  ep_config c = sizes(8, 2, 64, 6);
  c.layout = ep_layout::per_rank;
  c.p2p_group_size = 2;
  EXPECT_EQ(transfer_of(c, 4), ep_transfer::chunks);
  c.transfer = ep_transfer::lines;
  EXPECT_EQ(why_not(c, 4).substr(0, 35), "p2p_group_size: 2 of 4 ranks, but l");
  c.transfer = ep_transfer::chunks;
  EXPECT_EQ(why_not(c, 4), "");
  auto ranks = make_ranks(world::local(4, device_kind::cpu), c);
  EXPECT_THROW(ranks[0].ep().set_members({.epoch = 1, .active_ranks = 3}), invalid_argument);
}

TEST(exchange_groups_per_rank, where_sums_are_put_from_is_counted_where_it_is_used) {
  ep_config one_group = sizes(8, 2, 64, 6);
  one_group.layout = ep_layout::per_rank;
  one_group.transfer = ep_transfer::chunks;
  ep_config c = one_group;
  c.p2p_group_size = 4;
  EXPECT_EQ(workspace_bytes(c, 4).total(), workspace_bytes(one_group, 4).total());
  c.p2p_group_size = 2;
  const std::size_t sums = 4 * 6 * 64 * 2,
                    words = 2 * 4 * 8;  // a sum of each token of each rank; a line of ids each
  const std::size_t more = workspace_bytes(c, 4).window - workspace_bytes(one_group, 4).window;
  EXPECT_GE(more, sums);
  EXPECT_LT(more, sums + 512);
}

/// Whose warps store sums, which reaches the ranks of a group.
TEST(exchange_groups_per_rank, sums_of_many_tokens_are_not_by_teams) {
  using namespace ep::per_rank_chunks;
  endpoint e = endpoint::of(
      {.num_experts = 4, .num_ranks = 2, .top_k = 2, .hidden = 256, .max_tokens = 8192, .fp8_sums = true});
  EXPECT_TRUE(is_in_teams(e, {}));
  e.p2p_group_size = 1;
  EXPECT_FALSE(is_in_teams(e, {}));
}

}  // namespace
}  // namespace baton::test
