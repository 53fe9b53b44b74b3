// Ranks that go on without others, whatever their communicator is made for, and beside others of their world.
#include "tests/cpu/says.hpp"
#include "tests/support/fp8_back_cases.hpp"
#include "tests/support/local_members.hpp"
#include "tests/support/replicated_case.hpp"

namespace baton::test {
namespace {

/// Rounds of each of these memberships after the other.
void expect_rounds(local_ranks& ranks, const std::vector<ep_membership>& memberships) {
  for (const ep_membership& next : memberships) {
    ASSERT_EQ(ranks.set(next), nothing_wrong(ranks.c.ranks)) << "epoch " << next.epoch;
    EXPECT_EQ(ranks.run(next, 100 * next.epoch, 2), nothing_wrong(ranks.c.ranks)) << "epoch " << next.epoch;
    for (int r = 0; r < ranks.c.ranks; ++r)
      if (next.has(r)) EXPECT_NO_THROW(ranks.rank(r).ep().check());
  }
}

TEST(exchange_members_configs, eight_ranks_in_every_format_and_way_back) {
  for (const travel how : every_way_per_rank) {
    for (const token_format format : {token_format::bf16, token_format::blockwise_fp8, token_format::mxfp8}) {
      for (const token_format back : {token_format::bf16, token_format::blockwise_fp8}) {
        exchange_case c{8, sizes(24, 4, 128, 9), {9, 4, 7, 0, 3, 1, 9, 2}, routing::sparse};
        c.config.combine_format = back;
        c = travelling(how, c, format);
        if (!why_not(c.config, c.ranks).empty()) continue;
        SCOPED_TRACE(name(how));
        local_ranks ranks{c};
        expect_rounds(ranks, {{1, 0b01111111}, {2, 0b11000011}, {3, 0b10000000}, {4, 0b11111111}});
      }
    }
  }
}

TEST(exchange_members_configs, many_tokens_in_teams) {
  for (const travel how : {travel::in_chunks, travel::in_chunks_by_token}) {
    for (const named_case& of : team_cases(3)) {
      SCOPED_TRACE(of.name);
      local_ranks ranks{travelling(how, of.what)};
      expect_rounds(ranks, {{1, 0b011}, {2, 0b101}, {3, 0b111}});
    }
  }
}

TEST(exchange_members_configs, rows_of_experts_are_counted_of_members_alone) {
  for (const travel how : every_way_per_rank) {
    SCOPED_TRACE(name(how));
    local_ranks ranks{travelling(how, {4, sizes(11, 3, 64, 40), {29, 14, 37, 40}, routing::distinct})};
    const ep_membership members{1, 0b1101};
    ASSERT_EQ(ranks.set(members), nothing_wrong(4));
    std::vector<device_buffer<std::int64_t>> loads;
    for (int r = 0; r < 4; ++r) {
      loads.emplace_back(ranks.worlds[static_cast<std::size_t>(r)], std::vector<std::int64_t>(3, 0));
      ranks.rank(r).options.expert_load = loads.back().data();
      ranks.rank(r).options.dispatch_sms = ranks.rank(r).options.combine_sms = 1;
    }
    ASSERT_EQ(ranks.run(members, 7, 1), nothing_wrong(4));
    const member_inputs in = draw_member_inputs(ranks.c, members, 7);
    std::vector<std::int64_t> expected(11, 0);
    for (const rank_inputs& of_rank : in.counted)
      for (int i = 0; i < 3 * of_rank.num_tokens; ++i)
        if (const auto id = of_rank.topk_idx[static_cast<std::size_t>(i)]; id >= 0)
          ++expected[static_cast<std::size_t>(id)];
    for (int r = 0; r < 4; ++r) {
      const expert_range own = experts_of_rank(11, 4, r);
      const std::vector<std::int64_t> got = loads[static_cast<std::size_t>(r)].to_host();
      for (int e = 0; members.has(r) && e < own.count; ++e)
        EXPECT_EQ(got[static_cast<std::size_t>(e)], expected[static_cast<std::size_t>(own.first + e)])
            << "expert " << own.first + e;
    }
  }
}

TEST(exchange_members_configs, tokens_go_to_the_replicas_that_are_there) {
  for (const travel how : every_way_per_rank) {
    SCOPED_TRACE(name(how));
    exchange_case c = travelling(how, {3, sizes(12, 3, 64, 9), {9, 4, 7}, routing::distinct});
    const expert_placement placement = drawn_placement(8, 12, 3, 5);
    c.weights_of = placement.physical_to_logical;
    local_ranks ranks{c};
    for (const ep_membership members : {ep_membership{1, 0b101}, {2, 0b010}, {3, 0b111}}) {
      ASSERT_EQ(ranks.set(members), nothing_wrong(3));
      const replica_tables tables = active_replicas(placement, members.active_ranks);
      const auto logical = draw_logical_inputs(c, 8, members.epoch);
      auto physical = with_replicas(logical, c.config.top_k, {tables, tables, tables});
      for (int r = 0; r < 3; ++r)
        if (!members.has(r)) physical[static_cast<std::size_t>(r)].num_tokens = 0;
      const expected_round expected{c, physical};
      const auto wrong = ranks.on_members(members, [&](int r) {
        const auto rank = static_cast<std::size_t>(r);
        const device_map map{ranks.worlds[rank], tables};
        exchange_rank& mine = ranks.rank(r);
        mine.options.replicas = map.map();
        mine.options.weights_of = c.weights_of;
        mine.load(logical[rank]);
        mine.dispatch();
        const received_copy got = mine.read_received();
        const std::string differs = difference(expected, r, got);
        if (!differs.empty()) return differs;
        mine.apply_experts(got);
        mine.combine();
        return difference(expected_output(expected, r), mine.read_output());
      });
      EXPECT_EQ(wrong, nothing_wrong(3)) << "epoch " << members.epoch;
    }
  }
}

TEST(exchange_members_configs, another_communicator_of_the_world_has_members_of_its_own) {
  const exchange_case c = travelling(travel::in_lines, {3, sizes(11, 3, 64, 9), {9, 4, 7}, routing::sparse});
  const auto worlds = world::local(3, device_kind::cpu);
  local_ranks one{c, worlds}, other{c, worlds};
  const ep_membership two{1, 0b011}, all{0, 0b111}, rest{5, 0b110};
  ASSERT_EQ(one.set(two), nothing_wrong(3));
  EXPECT_EQ(other.run(all, 1), nothing_wrong(3)) << "had nothing queued, so that nothing of it is lost";
  EXPECT_EQ(one.run(two, 1), nothing_wrong(3));
  ASSERT_EQ(other.set(rest), nothing_wrong(3));
  EXPECT_EQ(other.run(rest, 2), nothing_wrong(3));
  EXPECT_EQ(one.run(two, 2), nothing_wrong(3));
}

}  // namespace
}  // namespace baton::test
