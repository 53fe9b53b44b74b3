// Layout per_rank in CUDA graphs that are replayed with other tokens, ids and weights each time.
#include <cmath>

#include "tests/support/captured_round.hpp"
#include "tests/support/exchange_cases.hpp"
#include "tests/support/gpu_count.hpp"

namespace baton::test {
namespace {

/// What experts that return their rows give: each rank's weighted sum, rounded to bf16 if it comes from another, added in the
/// order of ranks.
std::vector<float> identity_output(const exchange_case& c, const rank_inputs& in, int rank) {
  const auto hidden = static_cast<std::size_t>(c.config.hidden), k = static_cast<std::size_t>(c.config.top_k);
  std::vector<float> out;
  for (std::size_t i = 0; i < in.tokens.size(); ++i) {
    float sum = 0.0f;
    for (int r = 0; r < c.ranks; ++r) {
      float part = 0.0f;
      for (std::size_t j = i / hidden * k; j < (i / hidden + 1) * k; ++j)
        if (rank_of_expert(c, in.topk_idx[j]) == r)
          part = std::fma(in.topk_weights[j], static_cast<float>(in.tokens[i]), part);
      sum += r == rank ? part : static_cast<float>(bfloat16{part});
    }
    out.push_back(sum);
  }
  return out;
}

class exchange_replay_gpu : public testing::TestWithParam<ep_transfer> {};

INSTANTIATE_TEST_SUITE_P(cuda, exchange_replay_gpu, testing::Values(ep_transfer::lines, ep_transfer::chunks),
                         [](const auto& how) {
                           return how.param == ep_transfer::lines ? "lines" : "chunks";
                         });

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

}  // namespace
}  // namespace baton::test
