// Combine in teams of warps, which communicators for many tokens have: what comes of it is what every other way gives.
#include "tests/support/shared_cases.hpp"
#include "tests/support/team_cases.hpp"

namespace baton::test {
namespace {

void expect_right_in_teams(const std::vector<named_case>& cases, int num_ranks, int num_sms = few_blocks) {
  const auto worlds = world::local(num_ranks, device_kind::cpu);
  for (const named_case& c : cases) {
    SCOPED_TRACE(c.name);
    exchange_case in_chunks = per_rank(c.what, token_format::bf16, ep_transfer::chunks);
    in_chunks.config.num_sms = num_sms;
    expect_rounds_in_every_way(worlds, in_chunks, {{"fused", in_chunks.config, calls::fused}});
  }
}

class exchange_teams : public testing::TestWithParam<int> {};

TEST_P(exchange_teams, every_sum_is_right_to_the_bit) {
  const auto cases = team_cases(GetParam());
  expect_right_in_teams(cases, GetParam());
  expect_right_in_teams({cases[0]}, GetParam(), least_blocks);
}

INSTANTIATE_TEST_SUITE_P(cpu, exchange_teams, testing::Values(1, 2, 3, 4));

class shared_in_teams : public testing::TestWithParam<int> {};

TEST_P(shared_in_teams, what_shared_experts_made_is_the_last_addend_of_every_sum) {
  const auto worlds = world::local(GetParam(), device_kind::cpu);
  for (const named_case& c : team_cases(GetParam())) {
    SCOPED_TRACE(c.name);
    exchange_case shared = per_rank(c.what, token_format::bf16, ep_transfer::chunks);
    shared.config.num_sms = few_blocks;
    shared.shared_experts = true;
    expect_shared_rounds(worlds, shared, {calls::fused});
  }
}

INSTANTIATE_TEST_SUITE_P(cpu, shared_in_teams, testing::Values(1, 2, 4));

TEST(exchange_teams, what_shared_experts_made_is_added_to_sums_of_several_parts) {
  exchange_case c = per_rank(wide_team_cases(2)[5].what, token_format::bf16, ep_transfer::chunks);
  c.config.num_sms = few_blocks;
  c.shared_experts = true;
  expect_shared_rounds(world::local(2, device_kind::cpu), c, {calls::fused});
}

TEST(exchange_teams, many_sums_of_each_team_are_right_to_the_bit) {
  for (const named_case& c : busy_team_cases()) expect_right_in_teams({c}, c.what.ranks);
}

TEST(exchange_teams, wide_sums_are_right_to_the_bit_in_one_part_and_in_several) {
  expect_right_in_teams(wide_team_cases(2), 2);
}

}  // namespace
}  // namespace baton::test
