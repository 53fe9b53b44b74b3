// Ranks beyond the p2p group on GPUs: NVSHMEM, one process a GPU, all on one machine: there what it puts are stores. This
// process never touches CUDA, so that it may fork. Needs NVSHMEM, and BATON_NVSHMEM_MODULE, the path of libbaton_nvshmem.so.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ratio>

#include "baton/error.hpp"
#include "tests/support/exchange_processes.hpp"
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
    mine.dispatch_async();
    mine.dispatch_wait();
    mine.combine_async(static_cast<const bfloat16*>(mine.received().tokens));
    mine.combine_wait();
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

TEST(exchange_beyond_gpu_processes, results_are_the_bits_of_one_group_and_times_stand_beside_each_other) {
  if (const std::string why = why_skipped(2); !why.empty()) GTEST_SKIP() << why;
  expect_of_processes(2, device_kind::cuda, [](const world& w) {
    for (const auto& [experts, tokens] : {std::pair{256, 1}, std::pair{256, 128}, std::pair{64, 1024}}) {
      exchange_case c{2, sizes(experts, 8, 7168, tokens), {tokens, tokens}, routing::distinct};
      std::vector<float> near, far;
      const double stores = time_rounds(c, w, near);
      c.config.p2p_group_size = 1;
      const double puts = time_rounds(c, w, far);
      if (w.rank() == 0)
        std::printf(
            "%d tokens a rank, top 8 of %d experts, hidden 7168, bf16: a round by stores %.1f us, by NVSHMEM "
            "%.1f us\n",
            tokens, experts, stores, puts);
      std::fflush(nullptr);  // the child ends without it
      if (const std::string wrong = difference(near, far); !wrong.empty()) throw std::runtime_error{wrong};
    }
    return true;
  });
}

TEST(exchange_beyond_gpu_processes, a_killed_rank_is_named_by_its_survivor) {
  if (const std::string why = why_skipped(2); !why.empty()) GTEST_SKIP() << why;
  ::setenv("BATON_DEADLINE_MS", "3000", 1);
  expect_of_processes(
      2, device_kind::cuda,
      [](const world& w) {
        exchange_case c{2, sizes(8, 2, 64, 6), {6, 6}, routing::distinct};
        c.config.p2p_group_size = 1;
        exchange_rank mine{expert_parallel::create(w, c.config)};
        expect_no_error(run_rank(c, mine, 1));
        w.synchronize();
        if (w.rank() == 1) ::kill(::getpid(), SIGKILL);
        mine.load(draw_inputs(c, 2).front());
        mine.dispatch_async();
        mine.dispatch_wait();
        try {
          w.synchronize();
        } catch (const stuck& e) {
          // Without NVSHMEM's ending, in which a dead rank could be waited for.
          std::_Exit(e.where.peer == 1 && e.where.epoch == 2 && e.where.site == "dispatch.arrival" ? 7 : 1);
        }
        return false;
      },
      {7, 128 + SIGKILL});
  ::unsetenv("BATON_DEADLINE_MS");
}

TEST(exchange_beyond_gpu_processes, without_nvshmem_all_ranks_are_told_how_to_install_it) {
  if (num_gpus_without_touching_cuda() < 2) GTEST_SKIP() << "needs 2 GPUs";
  const char* const before = std::getenv("BATON_NVSHMEM");
  const std::string was = before != nullptr ? before : "";
  ::setenv("BATON_NVSHMEM", "/nowhere", 1);
  expect_of_processes(2, device_kind::cuda, [](const world& w) {
    ep_config c = sizes(8, 2, 64, 6);
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
