// More ranks than a p2p group may have: up to 32 in groups of up to 8, through the simulated network.
#include <set>

#include "baton/error.hpp"
#include "kernels/ep/per_expert/layout.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/exchange_cases.hpp"
#include "tests/support/exchange_in_groups.hpp"

namespace baton::test {
namespace {

enum class beyond_by { per_expert, per_rank, forwarded };

exchange_case beyond(beyond_by way, int group, exchange_case c) {
  c.config.p2p_group_size = group;
  if (way != beyond_by::per_expert) c.config.layout = ep_layout::per_rank;
  if (way == beyond_by::forwarded) c.config.levels = ep_levels::two;
  return c;
}

std::string rounds_beyond(const exchange_case& c, const sim::options& options = {}, int rounds = 3) {
  auto ranks = make_ranks(simulated_worlds(c.ranks, options), c.config);
  for (int round = 1; round <= rounds; ++round)
    if (const std::string wrong =
            run_round(c, ranks, static_cast<std::uint64_t>(round), round == 2 ? calls::fused : calls::apart);
        !wrong.empty())
      return wrong;
  return {};
}

TEST(exchange_many_ranks, rounds_are_right_by_every_way_and_number) {
  for (const beyond_by way : {beyond_by::per_expert, beyond_by::per_rank, beyond_by::forwarded})
    for (const auto& [ranks, group] : std::vector<std::pair<int, int>>{{9, 3}, {16, 8}, {16, 4}, {32, 8}})
      EXPECT_EQ(rounds_beyond(beyond(way, group, case_of_many_ranks(ranks))), "")
          << static_cast<int>(way) << ", " << ranks << " ranks in groups of " << group;
  for (const beyond_by way : {beyond_by::per_expert, beyond_by::per_rank})
    for (const auto& [ranks, group] : std::vector<std::pair<int, int>>{{12, 8}, {17, 5}, {32, 5}, {32, 1}})
      EXPECT_EQ(rounds_beyond(beyond(way, group, case_of_many_ranks(ranks))), "")
          << static_cast<int>(way) << ", " << ranks << " ranks in groups of " << group;
}

TEST(exchange_many_ranks, tokens_go_to_all_of_32_ranks_and_come_back) {
  exchange_case c{32, sizes(32, 32, 64, 2), std::vector<int>(32, 2), routing::distinct};
  for (const beyond_by way : {beyond_by::per_expert, beyond_by::per_rank, beyond_by::forwarded})
    EXPECT_EQ(rounds_beyond(beyond(way, 8, c), {}, 2), "") << static_cast<int>(way);
}

TEST(exchange_many_ranks, narrow_formats_travel_out_and_back) {
  for (const beyond_by way : {beyond_by::per_rank, beyond_by::forwarded})
    for (const token_format format : {token_format::blockwise_fp8, token_format::nvfp4}) {
      exchange_case c = beyond(way, 5, with(case_of_many_ranks(10), format, arrival_policy::epoch));
      c.config.combine_format = token_format::blockwise_fp8;
      c.config.rows = ep_rows::by_token;
      EXPECT_EQ(rounds_beyond(c), "") << static_cast<int>(way) << ", " << name(format);
    }
}

TEST(exchange_many_ranks, results_are_the_same_bits_whatever_the_groups) {
  const exchange_case c = case_of_many_ranks(16, 264);
  for (const beyond_by way : {beyond_by::per_expert, beyond_by::per_rank}) {
    const auto apart = outputs_of(beyond(way, 1, c));
    for (const int group : {2, 3, 8}) EXPECT_EQ(outputs_of(beyond(way, group, c)), apart) << group;
  }
  EXPECT_EQ(outputs_of(beyond(beyond_by::forwarded, 4, c)), outputs_of(beyond(beyond_by::forwarded, 4, c)));
}

/// Of few blocks, of which a warp sends several chunks and tells of some at once.
TEST(exchange_many_ranks, chunks_are_told_of_together_where_lanes_have_room) {
  for (const int ranks : {9, 16, 20}) {
    exchange_case c = case_of_many_ranks(ranks);
    c.config = sizes(ranks, 3, 64, 40);
    c.config.num_sms = 1;
    c.tokens.assign(static_cast<std::size_t>(ranks), 40);
    EXPECT_EQ(rounds_beyond(beyond(beyond_by::per_rank, 8, c), {}, 2), "") << ranks;
  }
}

TEST(exchange_many_ranks, results_are_right_however_puts_are_reordered) {
  for (const beyond_by way : {beyond_by::per_expert, beyond_by::per_rank, beyond_by::forwarded})
    for (std::uint64_t seed = 1; seed <= 5; ++seed)
      EXPECT_EQ(rounds_under(late_puts(sim::schedule::random, seed), beyond(way, 5, case_of_many_ranks(10))),
                "")
          << static_cast<int>(way) << ", seed " << seed;
}

TEST(exchange_many_ranks, a_rank_beyond_eight_that_is_lost_is_named_by_every_survivor) {
  for (const beyond_by way : {beyond_by::per_expert, beyond_by::per_rank, beyond_by::forwarded})
    for (const auto& [ranks, lost] : std::vector<std::pair<int, int>>{{12, 10}, {32, 31}}) {
      sim::options options;
      options.faults = {{sim::fault::kind::never_launches, lost}};
      exchange_case c{ranks, sizes(ranks, 6, 64, 2), {}, routing::distinct};
      c.tokens.assign(static_cast<std::size_t>(ranks), 2);
      c = beyond(way, 4, c);
      auto all = make_ranks(simulated_worlds(ranks, options), c.config);
      const auto found = run_until_stuck(all, c);
      for (int r = 0; r < ranks; ++r)
        if (r != lost)
          EXPECT_EQ(found[static_cast<std::size_t>(r)].peer, lost)
              << "rank " << r << " of " << ranks << ", " << static_cast<int>(way);
    }
}

TEST(exchange_many_ranks, waits_for_ranks_beyond_eight_are_counted) {
  const exchange_case c = beyond(beyond_by::per_rank, 4, case_of_many_ranks(12));
  auto ranks = make_ranks(simulated_worlds(c.ranks, {}), c.config);
  EXPECT_EQ(run_round(c, ranks, 1), "");
  std::uint64_t for_those_beyond_eight = 0;
  for (auto& r : ranks) {
    const peer_waits waited = r.ranks().wait_times();
    ASSERT_EQ(waited.peers.size(), 12u);
    for (std::size_t p = 8; p < 12; ++p) for_those_beyond_eight += waited.peers[p].waits;
  }
  EXPECT_GT(for_those_beyond_eight, 0u);
}

TEST(exchange_many_ranks, all_of_them_are_members_for_good) {
  const auto members_of = [](int num) {
    const exchange_case c = beyond(beyond_by::per_rank, 8, case_of_many_ranks(num));
    return make_ranks(world::local(num, device_kind::cpu), c.config).back().ep().members().active_ranks;
  };
  EXPECT_EQ(members_of(9), 0x1ffu);
  EXPECT_EQ(members_of(32), 0xffffffffu);
  const exchange_case c = beyond(beyond_by::per_rank, 8, case_of_many_ranks(16));
  auto ranks = make_ranks(world::local(16, device_kind::cpu), c.config);
  EXPECT_TRUE(says(message_of<invalid_argument>([&] {
                     ranks[9].ep().set_members({1, 0x7fff});
                   }),
                   "set_members", "p2p_group_size is 8 of 16 ranks"));
}

/// Behind all slots, which are alike: what is told of who was lost.
TEST(exchange_many_ranks, each_has_a_word_of_all_to_tell_who_was_lost) {
  const auto bytes_behind_slots = [](int ranks) {
    exchange_case c = beyond(beyond_by::per_rank, 8, case_of_many_ranks(ranks));
    const std::size_t of_one = workspace_bytes(c.config, ranks).window;
    c.config.num_slots = 2;
    return 2 * of_one - workspace_bytes(c.config, ranks).window;
  };
  EXPECT_EQ(bytes_behind_slots(16), 128u);
  EXPECT_EQ(bytes_behind_slots(17), 17u * 8);
  EXPECT_EQ(bytes_behind_slots(32), 32u * 8);
}

/// Of three tokens, and of the last ones that there may be.
TEST(exchange_many_ranks, no_two_rows_of_an_expert_have_one_seal) {
  std::set<std::uint32_t> seals;
  std::size_t rows = 0;
  for (const int token : {0, 1, 2, ep::max_tokens_per_rank - 1})
    for (int slot = 0; slot < ep::max_top_k; ++slot)
      for (int rank = 0; rank < ep::max_ranks; ++rank, ++rows)
        seals.insert(ep::seal_of<most_peers>({token, slot, rank, 0}, 5, 9));
  EXPECT_EQ(seals.size(), rows);
}

TEST(exchange_many_ranks, groups_that_are_too_large_are_refused_by_name) {
  const auto reason = [](int ranks, int group) {
    ep_config c = sizes(64, 2, 64, 8);
    c.p2p_group_size = group;
    return why_not(c, ranks);
  };
  EXPECT_TRUE(says(reason(16, 0), "ranks: 16", "more than the 8 of a p2p group",
                   "groups of up to 8 (p2p_group_size)"));
  EXPECT_TRUE(says(reason(16, 16), "p2p_group_size: 16 is outside [1, 8]"));
  EXPECT_TRUE(says(reason(16, 9), "p2p_group_size: 9 is outside [1, 8]"));
  EXPECT_TRUE(says(reason(16, -1), "p2p_group_size: -1 is outside [1, 8]"));
  EXPECT_TRUE(says(reason(33, 8), "ranks: 33", "[1, 32]"));
  for (const int ranks : {9, 16, 24, 32}) EXPECT_EQ(reason(ranks, 8), "");
  EXPECT_EQ(reason(8, 0), "");
}

}  // namespace
}  // namespace baton::test
