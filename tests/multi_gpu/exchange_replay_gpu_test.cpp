// Layout per_rank in CUDA graphs that are replayed with other tokens, ids and weights each time.
#include "tests/support/captured_round.hpp"
#include "tests/support/exchange_cases.hpp"
#include "tests/support/gpu_count.hpp"
#include "tests/support/identity_experts.hpp"

namespace baton::test {
namespace {

class exchange_replay_gpu : public testing::TestWithParam<ep_transfer> {};

INSTANTIATE_TEST_SUITE_P(cuda, exchange_replay_gpu, testing::ValuesIn(every_transfer),
                         [](const auto& how) { return name(how.param); });

TEST_P(exchange_replay_gpu, ten_thousand_replays_with_changing_routing_stay_right_to_the_bit) {
  if (num_gpus() < 2) GTEST_SKIP() << "needs 2 GPUs, found " << num_gpus();
  const int n = num_gpus() >= 4 ? 4 : 2;
  const auto worlds = world::local(n, device_kind::cuda);
  exchange_case c =
      per_rank({n, sizes(24, 4, 64, 40), std::vector<int>(static_cast<std::size_t>(n), 40), routing::sparse},
               token_format::bf16, GetParam());
  std::vector<captured_rank> captured;
  auto ranks = make_captured_ranks(worlds, c.config, captured);
  auto inputs = draw_inputs(c, 1);
  for (std::size_t r = 0; r < captured.size(); ++r) {
    ranks[r].load(inputs[r]);
    ranks[r].ranks().synchronize({captured[r].stream});
    ASSERT_NO_FATAL_FAILURE(capture_round(ranks[r], captured[r], [](exchange_rank& rank) {
      rank.dispatch();
      rank.combine(static_cast<const bfloat16*>(rank.received().tokens));
    }));
  }
  for (std::uint64_t seed = 1; seed <= 10000; ++seed) {
    inputs = draw_inputs(c, seed);
    for (std::size_t r = 0; r < captured.size(); ++r) ranks[r].load(inputs[r]);
    for (auto& rank : captured) ASSERT_EQ(cudaGraphLaunch(rank.graph, rank.stream), cudaSuccess);
    for (std::size_t r = 0; r < captured.size(); ++r)
      ASSERT_EQ(difference(identity_output(c, inputs[r], static_cast<int>(r)), ranks[r].read_output()), "")
          << "replay " << seed << " rank " << r;
  }
  destroy(captured);
}

TEST_P(exchange_replay_gpu, tokens_that_lie_once_are_where_the_captured_dispatch_said_in_every_replay) {
  if (num_gpus() < 2) GTEST_SKIP() << "needs 2 GPUs, found " << num_gpus();
  const exchange_case c = per_rank({2, sizes(24, 4, 1024, 40), {40, 33}, routing::sparse},
                                   token_format::blockwise_fp8, GetParam(), ep_rows::by_token);
  std::vector<captured_rank> captured;
  auto ranks = make_captured_ranks(world::local(2, device_kind::cuda), c.config, captured);
  ASSERT_EQ(run_round(c, ranks, 1, calls::fused), "");  // allocates the experts' outputs
  std::vector<captured_rank> combines;
  ASSERT_NO_FATAL_FAILURE(combines = capture_apart(ranks, captured));
  for (std::uint64_t seed = 2; seed <= 200; ++seed) {
    const auto inputs = draw_inputs(c, seed);
    const expected_round round{c, inputs};
    std::vector<received_copy> got;
    for (std::size_t r = 0; r < 2; ++r) ranks[r].load(inputs[r]);
    for (auto& rank : captured) ASSERT_EQ(cudaGraphLaunch(rank.graph, rank.stream), cudaSuccess);
    for (auto& rank : ranks) got.push_back(rank.read_received());
    for (std::size_t r = 0; r < 2; ++r) {
      ASSERT_EQ(difference(round, static_cast<int>(r), got[r]), "") << "replay " << seed;
      ranks[r].apply_experts(got[r]);
    }
    for (auto& rank : combines) ASSERT_EQ(cudaGraphLaunch(rank.graph, rank.stream), cudaSuccess);
    for (std::size_t r = 0; r < 2; ++r)
      ASSERT_EQ(difference(expected_output(round, static_cast<int>(r)), ranks[r].read_output()), "")
          << "replay " << seed << " rank " << r;
  }
  for (captured_rank& rank : combines) EXPECT_EQ(cudaGraphExecDestroy(rank.graph), cudaSuccess);
  destroy(captured);
}

}  // namespace
}  // namespace baton::test
