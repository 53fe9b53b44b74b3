// Ranks beyond the p2p group on GPUs: NVSHMEM, one process a GPU, all on one machine: there what it puts are stores. This
// process never touches CUDA, so that it may fork. Needs NVSHMEM, and BATON_NVSHMEM_MODULE, the path of libbaton_nvshmem.so.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ratio>
#include <string>
#include <vector>

#include "baton/error.hpp"
#include "tests/support/exchange_processes.hpp"
#include "tests/support/fp8_back_cases.hpp"
#include "tests/support/gpu_count.hpp"

namespace baton::test {
namespace {

/// Empty if the tests can run with so many GPUs.
std::string why_skipped(int gpus) {
  if (const int found = num_gpus_without_touching_cuda(); found < gpus)
    return fmt::format("needs {} GPUs, found {}", gpus, found);
  return std::getenv("BATON_NVSHMEM_MODULE") == nullptr
             ? "needs BATON_NVSHMEM_MODULE, the path of libbaton_nvshmem.so, and NVSHMEM"
             : "";
}

class exchange_beyond_gpu_processes : public testing::TestWithParam<std::pair<int, int>> {};

TEST_P(exchange_beyond_gpu_processes, every_row_and_every_sum_is_right_to_the_bit) {
  const auto [ranks, group] = GetParam();
  if (const std::string why = why_skipped(ranks); !why.empty()) GTEST_SKIP() << why;
  expect_of_processes(ranks, device_kind::cuda, [ranks = ranks, group = group](const world& w) {
    for (const named_case& c : conformance_cases(ranks, 3))
      for (const token_format format : {token_format::bf16, token_format::blockwise_fp8, token_format::nvfp4})
        for (const arrival_policy arrival : {arrival_policy::epoch, arrival_policy::sentinel}) {
          exchange_case what = with(c.what, format, arrival);
          what.config.p2p_group_size = group;
          exchange_rank mine{expert_parallel::create(w, what.config)};
          if (const std::string wrong = run_rank(what, mine, 3); !wrong.empty())
            throw std::runtime_error{fmt::format("{}, {}: {}", c.name, name(format), wrong)};
        }
    return true;
  });
}

/// Rounds whose calls are apart, then whose calls are fused. @throws std::runtime_error  what is wrong
void expect_right_rounds(const exchange_case& what, const world& w, const char* called) {
  exchange_rank mine{expert_parallel::create(w, what.config)};
  std::string wrong = run_rank(what, mine, 3);
  if (wrong.empty()) wrong = run_rank(what, mine, 3, calls::fused);
  if (wrong.empty()) return;
  throw std::runtime_error{fmt::format(
      "{}, {}, sums in {}, {}: {}", called, name(what.config.format), name(what.config.combine_format),
      what.config.rows == ep_rows::by_token ? "by token" : "by expert", wrong)};
}

TEST_P(exchange_beyond_gpu_processes, layout_per_rank_is_right_to_the_bit_in_every_format) {
  const auto [ranks, group] = GetParam();
  if (const std::string why = why_skipped(ranks); !why.empty()) GTEST_SKIP() << why;
  expect_of_processes(ranks, device_kind::cuda, [ranks = ranks, group = group](const world& w) {
    for (const named_case& c : conformance_cases(ranks, 3))
      for (const token_format format : {token_format::bf16, token_format::blockwise_fp8, token_format::nvfp4})
        for (const ep_rows rows : {ep_rows::by_expert, ep_rows::by_token}) {
          exchange_case what = per_rank(c.what, format, ep_transfer::automatic, rows);
          what.config.p2p_group_size = group;
          expect_right_rounds(what, w, c.name);
        }
    exchange_case given =
        per_rank({ranks, sizes(11, 3, 128, 9), {}, routing::sparse}, token_format::blockwise_fp8);
    given.tokens.resize(static_cast<std::size_t>(ranks), 9);
    given.given_tokens = true;
    given.config.p2p_group_size = group;
    expect_right_rounds(given, w, "given");
    exchange_case few_blocks = per_rank({ranks, sizes(13, 5, 264, 17), {}, routing::sparse});
    few_blocks.tokens.resize(static_cast<std::size_t>(ranks), 17);
    few_blocks.config.p2p_group_size = group;
    for (const int sms : {1, 3}) {
      few_blocks.config.num_sms = sms;
      expect_right_rounds(few_blocks, w, "few_blocks");
    }
    return true;
  });
}

TEST_P(exchange_beyond_gpu_processes, sums_of_layout_per_rank_travel_back_in_fp8) {
  const auto [ranks, group] = GetParam();
  if (const std::string why = why_skipped(ranks); !why.empty()) GTEST_SKIP() << why;
  expect_of_processes(ranks, device_kind::cuda, [ranks = ranks, group = group](const world& w) {
    // Beyond the group no warps work in teams: the cases of lines are all there are.
    for (const named_case& c : fp8_back_cases(ranks, travel::in_lines))
      for (const token_format format : {token_format::bf16, token_format::blockwise_fp8}) {
        exchange_case what = per_rank(c.what, format);
        what.config.combine_format = token_format::blockwise_fp8;
        what.config.p2p_group_size = group;
        expect_right_rounds(what, w, c.name);
      }
    return true;
  });
}

INSTANTIATE_TEST_SUITE_P(ranks, exchange_beyond_gpu_processes,
                         testing::Values(std::pair{2, 1}, std::pair{4, 1}, std::pair{4, 2}),
                         [](const auto& of) {
                           return fmt::format("{}_in_groups_of_{}", of.param.first, of.param.second);
                         });

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
  const auto [ranks, group] = GetParam();
  if (const std::string why = why_skipped(ranks); !why.empty()) GTEST_SKIP() << why;
  for (const ep_layout layout : {ep_layout::per_expert, ep_layout::per_rank})
    compare_with_one_group(ranks, group, layout);
}

/// What a survivor of a rank that was killed makes of it, as an exit code: 7 if that rank is named, in the second round and at
/// `site`.
int name_the_dead(const world& w, const exchange_case& c, int killed, const std::string& site) {
  exchange_rank mine{expert_parallel::create(w, c.config)};
  expect_no_error(run_rank(c, mine, 1));
  w.synchronize();
  if (w.rank() == killed) ::kill(::getpid(), SIGKILL);
  mine.load(draw_inputs(c, 2).at(static_cast<std::size_t>(w.rank())));
  mine.dispatch_async();
  mine.dispatch_wait();
  try {
    w.synchronize();
  } catch (const stuck& e) {
    return e.where.peer == killed && e.where.epoch == 2 && e.where.site == site ? 7 : 1;
  }
  return 1;
}

TEST_P(exchange_beyond_gpu_processes, a_killed_rank_is_named_by_its_survivors) {
  const auto [ranks, group] = GetParam();
  if (const std::string why = why_skipped(ranks); !why.empty()) GTEST_SKIP() << why;
  ::setenv("BATON_DEADLINE_MS", "3000", 1);
  std::vector<int> exit_codes(static_cast<std::size_t>(ranks), 7);
  exit_codes.back() = 128 + SIGKILL;
  for (const ep_layout layout : {ep_layout::per_expert, ep_layout::per_rank}) {
    SCOPED_TRACE(layout == ep_layout::per_rank ? "per_rank" : "per_expert");
    expect_of_processes(
        ranks, device_kind::cuda,
        [=, ranks = ranks, group = group](const world& w) {
          exchange_case c{ranks, sizes(8, 2, 64, 6), {}, routing::distinct};
          c.tokens.resize(static_cast<std::size_t>(ranks), 6);
          c.config.layout = layout;
          c.config.p2p_group_size = group;
          // Without NVSHMEM's ending, in which a dead rank could be waited for.
          std::_Exit(name_the_dead(w, c, ranks - 1,
                                   layout == ep_layout::per_rank ? "dispatch.ids" : "dispatch.arrival"));
          return false;
        },
        exit_codes);
  }
  ::unsetenv("BATON_DEADLINE_MS");
}

TEST(exchange_beyond_gpu_processes, without_nvshmem_all_ranks_are_told_how_to_install_it) {
  if (num_gpus_without_touching_cuda() < 2) GTEST_SKIP() << "needs 2 GPUs";
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
