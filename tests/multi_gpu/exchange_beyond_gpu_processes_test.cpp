// Ranks beyond the p2p group on GPUs: NVSHMEM, one process a rank, all on one machine: there what it puts are stores. This
// process never touches CUDA, so that it may fork. Needs NVSHMEM, and BATON_NVSHMEM_MODULE, the path of libbaton_nvshmem.so.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ratio>
#include <string>
#include <vector>

#include "tests/support/exchange_beyond.hpp"
#include "tests/support/texts_of_ranks.hpp"

namespace baton::test {
namespace {

class exchange_beyond_gpu_processes : public ranks_beyond {};

TEST_P(exchange_beyond_gpu_processes, every_row_and_every_sum_is_right_to_the_bit) {
  const groups_beyond& groups = GetParam();
  expect_of_processes(groups.ranks, device_kind::cuda, [&](const world& w) {
    for (const named_case& c : conformance_cases(groups.ranks, 3))
      for (const token_format format : {token_format::bf16, token_format::blockwise_fp8, token_format::mxfp8,
                                        token_format::mxfp4, token_format::nvfp4})
        for (const arrival_policy arrival : {arrival_policy::epoch, arrival_policy::sentinel}) {
          const exchange_case what = groups.of(with(c.what, format, arrival));
          exchange_rank mine{expert_parallel::create(w, what.config)};
          if (const std::string wrong = run_rank(what, mine, 3); !wrong.empty())
            throw std::runtime_error{fmt::format("{}, {}: {}", c.name, name(format), wrong)};
        }
    return true;
  });
}

TEST_P(exchange_beyond_gpu_processes, layout_per_rank_is_right_to_the_bit_in_every_format) {
  const groups_beyond& groups = GetParam();
  expect_every_format_beyond(groups);
}

TEST_P(exchange_beyond_gpu_processes, sums_of_layout_per_rank_travel_back_in_fp8) {
  const groups_beyond& groups = GetParam();
  expect_sums_in_fp8_beyond(groups);
}

TEST_P(exchange_beyond_gpu_processes, every_other_wish_is_right_to_the_bit) {
  const groups_beyond& groups = GetParam();
  expect_every_way_beyond(groups);
}

TEST_P(exchange_beyond_gpu_processes, bad_ids_are_reported_with_the_first_token_and_value) {
  const groups_beyond& groups = GetParam();
  for (const ep_layout layout : {ep_layout::per_expert, ep_layout::per_rank})
    expect_bad_ids_reported_beyond(groups, layout);
}

TEST_P(exchange_beyond_gpu_processes, greedy_texts_equal_every_expected_continuation) {
  const groups_beyond& groups = GetParam();
  expect_of_processes(groups.ranks, device_kind::cuda, [&](const world& w) {
    for (const cli::exchange_options& options : ways_of_texts(groups.group)) expect_texts_of_rank(w, options);
    return true;
  });
}

INSTANTIATE_TEST_SUITE_P(ranks, exchange_beyond_gpu_processes,
                         testing::Values(groups_beyond{2, 1}, groups_beyond{4, 1}, groups_beyond{4, 2}),
                         [](const auto& of) { return of.param.name(); });

/// Microseconds of a round whose experts return their rows, and what it gave.
double time_rounds(const exchange_case& c, const world& w, std::vector<float>& out) {
  exchange_rank mine{expert_parallel::create(w, c.config)};
  mine.load(draw_inputs(c, 1)[static_cast<std::size_t>(w.rank())]);
  const auto round = [&] {
    mine.dispatch();
    mine.combine(static_cast<const bfloat16*>(mine.received().tokens));
  };
  for (int i = 0; i < 20; ++i) round();
  w.synchronize();
  const auto began = std::chrono::steady_clock::now();
  constexpr int rounds = 200;
  for (int i = 0; i < rounds; ++i) round();
  w.synchronize();
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - began;
  out = mine.read_output();
  return took.count() / rounds;
}

/// Rounds through one group and through groups of this size, in a process a rank.
void compare_with_one_group(int ranks, int group, ep_layout layout) {
  expect_of_processes(ranks, device_kind::cuda, [=](const world& w) {
    for (const auto& [experts, tokens] : {std::pair{256, 1}, std::pair{256, 128}, std::pair{64, 1024}}) {
      exchange_case c{ranks, sizes(experts, 8, 7168, tokens), {}, routing::distinct};
      c.tokens.resize(static_cast<std::size_t>(ranks), tokens);
      c.config.layout = layout;
      std::vector<float> near, far;
      const double stores = time_rounds(c, w, near);
      c.config.p2p_group_size = group;
      const double puts = time_rounds(c, w, far);
      if (w.rank() == 0)
        std::printf(
            "%d ranks in groups of %d, layout %s, %d tokens a rank, top 8 of %d experts, hidden 7168, bf16: "
            "a "
            "round by stores %.1f us, by NVSHMEM %.1f us\n",
            ranks, group, layout == ep_layout::per_rank ? "per_rank" : "per_expert", tokens, experts, stores,
            puts);
      std::fflush(nullptr);  // the child ends without it
      if (const std::string wrong = difference(near, far); !wrong.empty()) throw std::runtime_error{wrong};
    }
    return true;
  });
}

TEST_P(exchange_beyond_gpu_processes, results_are_the_bits_of_one_group_and_times_stand_beside_each_other) {
  const groups_beyond& groups = GetParam();
  for (const ep_layout layout : {ep_layout::per_expert, ep_layout::per_rank})
    compare_with_one_group(groups.ranks, groups.group, layout);
}

TEST_P(exchange_beyond_gpu_processes, a_killed_rank_is_named_by_its_survivors) {
  const groups_beyond& groups = GetParam();
  for (const ep_layout layout : {ep_layout::per_expert, ep_layout::per_rank}) {
    SCOPED_TRACE(layout == ep_layout::per_rank ? "per_rank" : "per_expert");
    expect_the_killed_named_beyond(groups, layout);
  }
}

TEST(exchange_beyond_gpu_processes, without_nvshmem_all_ranks_are_told_how_to_install_it) {
  if (num_gpus_without_touching_cuda() < 1) GTEST_SKIP() << "needs a GPU, found none";
  const char* const before = std::getenv("BATON_NVSHMEM");
  const std::string was = before != nullptr ? before : "";
  ::setenv("BATON_NVSHMEM", "/nowhere", 1);
  for (const ep_layout layout : {ep_layout::per_expert, ep_layout::per_rank})
    expect_of_processes(2, device_kind::cuda, [layout](const world& w) {
      ep_config c = sizes(8, 2, 64, 6);
      c.layout = layout;
      c.p2p_group_size = 1;
      try {
        const expert_parallel none = expert_parallel::create(w, c);
      } catch (const unsupported& e) {
        const std::string text = e.what();
        c.p2p_group_size = 2;
        const expert_parallel goes_on = expert_parallel::create(w, c);
        return text.find("/nowhere/lib/libnvshmem_host.so.3") != text.npos &&
               text.find("pip install nvidia-nvshmem-cu13") != text.npos;
      }
      return false;
    });
  if (before != nullptr)
    ::setenv("BATON_NVSHMEM", was.c_str(), 1);
  else
    ::unsetenv("BATON_NVSHMEM");
}

}  // namespace
}  // namespace baton::test
