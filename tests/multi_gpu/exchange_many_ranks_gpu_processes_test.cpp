// More ranks than a p2p group may have on GPUs, through NVSHMEM: a process each, and several to a GPU, which gives them turns.
#include "tests/support/exchange_beyond.hpp"

namespace baton::test {
namespace {

class exchange_many_ranks_gpu_processes : public ranks_beyond {};
INSTANTIATE_TEST_SUITE_P(ranks, exchange_many_ranks_gpu_processes,
                         testing::Values(groups_beyond{12, 4}, groups_beyond{12, 4, ep_levels::two},
                                         groups_beyond{16, 8}, groups_beyond{16, 8, ep_levels::two},
                                         groups_beyond{32, 8, ep_levels::two}),
                         [](const auto& of) { return of.param.name(); });

/// Each has another number of tokens, some have none, and experts do not divide by ranks.
exchange_case case_of_many_ranks_on_gpus(int ranks, ep_layout layout, token_format format) {
  exchange_case c{ranks, sizes(ranks + ranks / 2 + 1, 6, 264, 7), {}, routing::sparse};
  for (int r = 0; r < ranks; ++r) c.tokens.push_back((r * 5 + 3) % 8);
  c = with(c, format, arrival_policy::epoch);
  c.config.layout = layout;
  c.config.num_sms = 4;
  return c;
}

TEST_P(exchange_many_ranks_gpu_processes, rounds_are_right_to_the_bit) {
  const groups_beyond& groups = GetParam();
  expect_of_processes(groups.ranks, device_kind::cuda, [&](const world& w) {
    for (const ep_layout layout : {ep_layout::per_rank, ep_layout::per_expert}) {
      if (groups.levels == ep_levels::two && layout == ep_layout::per_expert) continue;
      for (const token_format format : {token_format::bf16, token_format::blockwise_fp8}) {
        const exchange_case c = groups.of(case_of_many_ranks_on_gpus(groups.ranks, layout, format));
        exchange_rank mine{expert_parallel::create(w, c.config)};
        expect_no_error(run_rank(c, mine, 2));
        if (layout == ep_layout::per_rank) expect_no_error(run_rank(c, mine, 2, calls::fused));
      }
    }
    return true;
  });
}

}  // namespace
}  // namespace baton::test
