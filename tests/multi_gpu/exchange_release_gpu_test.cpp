// Graphs that were captured before a communicator's memory went are right once it is back.
#include "runtime/on_cuda.hpp"
#include "tests/support/captured_round.hpp"
#include "tests/support/exchange_cases.hpp"
#include "tests/support/gpu_count.hpp"
#include "tests/support/identity_experts.hpp"

namespace baton::test {
namespace {

class exchange_release_gpu : public testing::TestWithParam<travel> {};

// Experts that return rows take them by expert.
INSTANTIATE_TEST_SUITE_P(cuda, exchange_release_gpu,
                         testing::Values(travel::by_expert, travel::in_lines, travel::in_chunks,
                                         travel::by_flags),
                         [](const auto& how) { return name(how.param); });

void replay_all(const exchange_case& c, std::vector<exchange_rank>& ranks,
                const std::vector<captured_rank>& captured, std::uint64_t first_seed, int times) {
  for (std::uint64_t seed = first_seed; seed < first_seed + static_cast<std::uint64_t>(times); ++seed) {
    const auto inputs = draw_inputs(c, seed);
    for (std::size_t r = 0; r < ranks.size(); ++r) ranks[r].load(inputs[r]);
    for (const captured_rank& rank : captured)
      ASSERT_EQ(cudaGraphLaunch(rank.graph, rank.stream), cudaSuccess);
    for (std::size_t r = 0; r < ranks.size(); ++r)
      ASSERT_EQ(difference(identity_output(c, inputs[r], static_cast<int>(r)), ranks[r].read_output()), "")
          << "replay " << seed << " rank " << r;
  }
}

TEST_P(exchange_release_gpu, graphs_captured_before_are_right_after_and_the_gpus_have_the_memory_in_between) {
  BATON_REQUIRE_GPUS(2);
  const int n = num_gpus() >= 4 ? 4 : 2;
  const auto worlds = world::local(n, device_kind::cuda);
  exchange_case c = travelling(
      GetParam(), {n, sizes(24, 4, 4096, 2048), std::vector<int>(worlds.size(), 40), routing::sparse});
  if (GetParam() == travel::in_lines || GetParam() == travel::by_flags)
    c.config.num_max_tokens_per_rank = 512;
  std::vector<captured_rank> captured;
  auto ranks = make_captured_ranks(worlds, c.config, captured);
  auto inputs = draw_inputs(c, 1);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    ranks[r].load(inputs[r]);
    worlds[r].synchronize({captured[r].stream});
    ASSERT_NO_FATAL_FAILURE(capture_round(
        ranks[r], captured[r], [](exchange_rank& rank) { enqueue_identity_round(rank, calls::fused); }));
  }
  const std::size_t each = workspace_bytes(c.config, n).total();
  for (std::uint64_t turn = 0; turn < 3; ++turn) {
    ASSERT_NO_FATAL_FAILURE(replay_all(c, ranks, captured, 1000 * turn + 1, 50));
    std::vector<std::size_t> before;
    for (const world& w : worlds) before.push_back(on_cuda::free_bytes(w.device_index()));
    on_every_rank(worlds, [&](int r) { ranks[static_cast<std::size_t>(r)].ep().release(); });
    for (std::size_t r = 0; r < ranks.size(); ++r)
      EXPECT_GE(on_cuda::free_bytes(worlds[r].device_index()), before[r] + each) << "rank " << r;
    on_every_rank(worlds, [&](int r) { ranks[static_cast<std::size_t>(r)].ep().reacquire(); });
  }
  ASSERT_NO_FATAL_FAILURE(replay_all(c, ranks, captured, 5000, 50));
  destroy(captured);
}

}  // namespace
}  // namespace baton::test
