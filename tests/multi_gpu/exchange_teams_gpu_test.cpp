// Combine in teams of warps on 2 and 4 GPUs of one process.
#include "tests/support/gpu_count.hpp"
#include "tests/support/team_cases.hpp"

namespace baton::test {
namespace {

class exchange_teams_gpu : public testing::TestWithParam<int> {};

TEST_P(exchange_teams_gpu, every_sum_is_right_to_the_bit) {
  BATON_REQUIRE_GPUS(GetParam());
  const auto worlds = world::local(GetParam(), device_kind::cuda);
  for (const auto& cases : {team_cases(GetParam()), wide_team_cases(GetParam())})
    for (const named_case& c : cases) {
      SCOPED_TRACE(c.name);
      const exchange_case in_chunks = per_rank(c.what, token_format::bf16, ep_transfer::chunks);
      exchange_case on_fewer_blocks = in_chunks;
      on_fewer_blocks.config.num_sms = least_blocks;
      expect_rounds_in_every_way(worlds, in_chunks,
                                 {{"all blocks", in_chunks.config, calls::fused},
                                  {"few blocks", on_fewer_blocks.config, calls::fused}});
    }
}

TEST_P(exchange_teams_gpu, as_many_tokens_as_there_may_be_are_right_to_the_bit_round_after_round) {
  BATON_REQUIRE_GPUS(GetParam());
  const auto worlds = world::local(GetParam(), device_kind::cuda);
  const auto n = static_cast<std::size_t>(GetParam());
  const exchange_case c = per_rank(
      {GetParam(), sizes(32, 8, 128, least_tokens), std::vector<int>(n, least_tokens), routing::distinct},
      token_format::bf16, ep_transfer::chunks);
  auto ranks = make_ranks(worlds, c.config);
  for (std::uint64_t seed = 1; seed <= 5; ++seed) EXPECT_EQ(run_round(c, ranks, seed, calls::fused), "");
}

INSTANTIATE_TEST_SUITE_P(cuda, exchange_teams_gpu, testing::Values(2, 4));

}  // namespace
}  // namespace baton::test
