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

TEST_P(exchange_many_ranks_gpu_processes, rounds_are_right_to_the_bit) {
  const groups_beyond& groups = GetParam();
  expect_of_processes(groups.ranks, device_kind::cuda, [&](const world& w) {
    for (const ep_layout layout : {ep_layout::per_rank, ep_layout::per_expert}) {
      if (groups.levels == ep_levels::two && layout == ep_layout::per_expert) continue;
      for (const token_format format : {token_format::bf16, token_format::blockwise_fp8}) {
        exchange_case c =
            groups.of(with(case_of_many_ranks(groups.ranks, 264), format, arrival_policy::epoch));
        c.config.layout = layout;
        c.config.num_sms = 4;
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
