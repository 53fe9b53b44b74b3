// The exchange with one process a GPU. This process never touches CUDA, so that it may fork.
#include "tests/support/captured_round.hpp"
#include "tests/support/exchange_processes.hpp"
#include "tests/support/gpu_count.hpp"
#include "tests/support/identity_experts.hpp"

namespace baton::test {
namespace {

class exchange_gpu_processes : public testing::TestWithParam<int> {};

TEST_P(exchange_gpu_processes, every_row_and_every_sum_is_right_to_the_bit) {
  const int ranks = GetParam(), devices = num_gpus_without_touching_cuda();
  if (devices < ranks) GTEST_SKIP() << "needs " << ranks << " GPUs, found " << devices;
  expect_conformance_of_processes(ranks, device_kind::cuda, 3, 5);
}

/// Replays of one rank's graph. Empty if all are right.
std::string replay(const exchange_case& c, exchange_rank& mine, const captured_rank& captured,
                   std::uint64_t first_seed) {
  const int rank = mine.ranks().rank();
  for (std::uint64_t seed = first_seed; seed < first_seed + 50; ++seed) {
    const rank_inputs in = draw_inputs(c, seed)[static_cast<std::size_t>(rank)];
    mine.load(in);
    if (cudaGraphLaunch(captured.graph, captured.stream) != cudaSuccess) return "the graph is not launched";
    const std::string wrong = difference(identity_output(c, in, rank), mine.read_output());
    if (!wrong.empty()) return fmt::format("replay {}: {}", seed, wrong);
  }
  return {};
}

TEST_P(exchange_gpu_processes, graphs_captured_before_memory_went_are_right_once_it_is_back) {
  const int size = GetParam(), devices = num_gpus_without_touching_cuda();
  if (devices < size) GTEST_SKIP() << "needs " << size << " GPUs, found " << devices;
  expect_of_processes(size, device_kind::cuda, [&](const world& w) {
    for (const travel how : {travel::by_expert, travel::in_lines, travel::in_chunks, travel::by_flags}) {
      const exchange_case c =
          travelling(how, {size, sizes(24, 4, 1024, 200),
                           std::vector<int>(static_cast<std::size_t>(size), 200), routing::sparse});
      captured_rank captured;
      if (cudaSetDevice(w.device_index()) != cudaSuccess ||
          cudaStreamCreateWithFlags(&captured.stream, cudaStreamNonBlocking) != cudaSuccess)
        return false;
      exchange_rank mine{expert_parallel::create(w, c.config), {captured.stream}};
      mine.load(draw_inputs(c, 1)[static_cast<std::size_t>(w.rank())]);
      w.synchronize({captured.stream});
      capture_round(mine, captured, [](exchange_rank& of) { enqueue_identity_round(of, calls::fused); });
      for (std::uint64_t turn = 0; turn < 3; ++turn) {
        if (turn > 0) {
          mine.ep().release();
          mine.ep().reacquire();
        }
        if (const std::string wrong = replay(c, mine, captured, 100 * turn); !wrong.empty())
          throw std::runtime_error{fmt::format("{}, turn {}: {}", name(how), turn, wrong)};
      }
    }
    return true;
  });
}

INSTANTIATE_TEST_SUITE_P(cuda, exchange_gpu_processes, testing::Values(2, 4));

}  // namespace
}  // namespace baton::test
