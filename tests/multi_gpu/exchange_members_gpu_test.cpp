// Graphs that were captured with all ranks are right with some of them, after a round that some missed, too, and with all again.
#include "baton/error.hpp"
#include "runtime/world_state.hpp"
#include "tests/support/captured_round.hpp"
#include "tests/support/gpu_count.hpp"
#include "tests/support/identity_experts.hpp"
#include "tests/support/member_rounds.hpp"

namespace baton::test {
namespace {

class exchange_members_gpu : public testing::TestWithParam<travel> {};

// Experts that return rows take them by expert.
INSTANTIATE_TEST_SUITE_P(cuda, exchange_members_gpu,
                         testing::Values(travel::in_lines, travel::in_chunks, travel::by_flags),
                         [](const auto& how) { return name(how.param); });

struct captured_ranks {
  exchange_case c;
  std::vector<world> worlds;
  std::vector<captured_rank> captured{};
  std::vector<exchange_rank> ranks{};

  void capture() {
    ranks = make_captured_ranks(worlds, c.config, captured);
    const auto inputs = draw_inputs(c, 1);
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      ranks[r].load(inputs[r]);
      worlds[r].synchronize({captured[r].stream});
      ASSERT_NO_FATAL_FAILURE(capture_round(
          ranks[r], captured[r], [](exchange_rank& rank) { enqueue_identity_round(rank, calls::fused); }));
    }
  }
  void set(const ep_membership& members) {
    on_every_rank(worlds, [&](int r) {
      if (members.has(r)) ranks[static_cast<std::size_t>(r)].ep().set_members(members);
    });
  }
  void launch(const ep_membership& members, const std::vector<rank_inputs>& inputs) {
    for (std::size_t r = 0; r < ranks.size(); ++r)
      if (members.has(static_cast<int>(r))) ranks[r].load(inputs[r]);
    for (std::size_t r = 0; r < ranks.size(); ++r)
      if (members.has(static_cast<int>(r)))
        ASSERT_EQ(cudaGraphLaunch(captured[r].graph, captured[r].stream), cudaSuccess);
  }
  void replay(const ep_membership& members, std::uint64_t first_seed) {
    for (std::uint64_t seed = first_seed; seed < first_seed + 50; ++seed) {
      const member_inputs in = draw_member_inputs(c, members, seed);
      ASSERT_NO_FATAL_FAILURE(launch(members, in.given));
      for (std::size_t r = 0; r < ranks.size(); ++r)
        if (members.has(static_cast<int>(r)))
          ASSERT_EQ(
              difference(identity_output(c, in.counted[r], static_cast<int>(r)), ranks[r].read_output()), "")
              << "replay " << seed << " rank " << r << " epoch " << members.epoch;
    }
  }
};

TEST_P(exchange_members_gpu, graphs_captured_with_all_are_right_with_some_and_with_all_again) {
  BATON_REQUIRE_GPUS(2);
  const int n = num_gpus() >= 4 ? 4 : 2;
  const auto worlds = world::local(n, device_kind::cuda);
  for (const world& w : worlds) w.state().deadline = std::chrono::seconds{2};
  captured_ranks all{travelling(GetParam(), {n, sizes(24, 4, 4096, 512), std::vector<int>(worlds.size(), 40),
                                             routing::sparse}),
                     worlds};
  ASSERT_NO_FATAL_FAILURE(all.capture());
  const std::uint32_t every = (1u << n) - 1, without_last = every >> 1;
  ASSERT_NO_FATAL_FAILURE(all.replay({0, every}, 1));
  for (std::uint64_t epoch = 1; epoch < 7; epoch += 2) {
    ASSERT_NO_FATAL_FAILURE(all.launch({epoch, without_last}, draw_inputs(all.c, 100 * epoch)));
    for (int r = 0; r + 1 < n; ++r) {
      const auto rank = static_cast<std::size_t>(r);
      EXPECT_THROW(worlds[rank].synchronize({all.captured[rank].stream}), stuck);
    }
    all.set({epoch, without_last});
    ASSERT_NO_FATAL_FAILURE(all.replay({epoch, without_last}, 100 * epoch + 1));
    all.set({epoch + 1, every});
    ASSERT_NO_FATAL_FAILURE(all.replay({epoch + 1, every}, 100 * epoch + 60));
  }
  destroy(all.captured);
}

}  // namespace
}  // namespace baton::test
