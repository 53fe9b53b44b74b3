// Two levels beyond the p2p group on GPUs, and rounds beyond it in CUDA graphs: what exchange_beyond_gpu_processes_test.cpp says.
#include "tests/support/captured_round.hpp"
#include "tests/support/exchange_beyond.hpp"
#include "tests/support/exchange_in_groups.hpp"
#include "tests/support/identity_experts.hpp"
#include "tests/support/killed_in_rounds.hpp"

namespace baton::test::two_levels_beyond {
namespace {

constexpr ep_levels one = ep_levels::one, two = ep_levels::two;
const auto name_of_groups = [](const auto& of) { return of.param.name(); };

class exchange_two_levels_gpu_processes : public ranks_beyond {};
INSTANTIATE_TEST_SUITE_P(ranks, exchange_two_levels_gpu_processes,
                         testing::Values(groups_beyond{2, 1, two}, groups_beyond{4, 1, two},
                                         groups_beyond{4, 2, two}),
                         name_of_groups);

TEST_P(exchange_two_levels_gpu_processes, rounds_are_right_to_the_bit_in_every_format) {
  const groups_beyond& groups = GetParam();
  expect_every_format_beyond(groups);
}

TEST_P(exchange_two_levels_gpu_processes, sums_travel_back_in_fp8) {
  const groups_beyond& groups = GetParam();
  expect_sums_in_fp8_beyond(groups);
}

TEST_P(exchange_two_levels_gpu_processes, every_other_wish_is_right_to_the_bit) {
  const groups_beyond& groups = GetParam();
  expect_every_way_beyond(groups);
}

TEST_P(exchange_two_levels_gpu_processes, bad_ids_are_reported_with_the_first_token_and_value) {
  const groups_beyond& groups = GetParam();
  expect_bad_ids_reported_beyond(groups, ep_layout::per_rank);
}

TEST_P(exchange_two_levels_gpu_processes, a_killed_rank_is_named_by_its_survivors) {
  const groups_beyond& groups = GetParam();
  expect_the_killed_named_beyond(groups, ep_layout::per_rank);
}

exchange_case usual_of(const groups_beyond& groups, const ep_config& config) {
  exchange_case c{groups.ranks, config, {}, routing::distinct};
  c.tokens.resize(static_cast<std::size_t>(groups.ranks), config.num_max_tokens_per_rank);
  return groups.of(per_rank(c));
}

/// What `times` rounds of the same inputs give this rank, whose experts return their rows. @throws std::runtime_error  other bits
std::vector<float> repeated_output(const exchange_case& c, const world& w, int times) {
  exchange_rank mine{expert_parallel::create(w, c.config)};
  mine.load(draw_inputs(c, 1)[static_cast<std::size_t>(w.rank())]);
  std::vector<float> first;
  for (int i = 0; i < times; ++i) {
    enqueue_identity_round(mine, i % 2 == 0 ? calls::fused : calls::apart);
    const std::vector<float> out = mine.read_output();
    if (i == 0) first = out;
    if (const std::string wrong = difference(first, out); !wrong.empty())
      throw std::runtime_error{fmt::format("repeat {}: {}", i, wrong)};
  }
  return first;
}

TEST_P(exchange_two_levels_gpu_processes, repeats_are_the_same_bits_and_in_groups_of_one_those_of_one_level) {
  const groups_beyond& groups = GetParam();
  expect_of_processes(groups.ranks, device_kind::cuda, [&](const world& w) {
    for (const auto& [experts, tokens] : {std::pair{256, 1}, std::pair{256, 128}, std::pair{64, 1024}}) {
      exchange_case c = usual_of(groups, sizes(experts, 8, 7168, tokens));
      const std::vector<float> forwarded = repeated_output(c, w, 12);
      if (groups.group > 1) continue;
      c.config.levels = one;
      expect_no_error(difference(repeated_output(c, w, 1), forwarded));
    }
    return true;
  });
}

/// The kernels are the same source there.
TEST_P(exchange_two_levels_gpu_processes, results_are_the_bits_of_a_cpu_world) {
  const groups_beyond& groups = GetParam();
  expect_of_processes(groups.ranks, device_kind::cuda, [&](const world& w) {
    for (const token_format back : {token_format::bf16, token_format::blockwise_fp8})
      for (const int hidden : {1024, 384}) {
        exchange_case c = usual_of(groups, sizes(16, 6, hidden, 20));
        c.config.combine_format = back;
        exchange_rank mine{expert_parallel::create(w, c.config)};
        mine.load(draw_inputs(c, 7)[static_cast<std::size_t>(w.rank())]);
        mine.dispatch();
        mine.apply_experts(mine.read_received());
        mine.combine();
        expect_no_error(difference(outputs_of(c)[static_cast<std::size_t>(w.rank())], mine.read_output()));
      }
    return true;
  });
}

/// Of four ranks; the last of a group, which others forward for and wait for.
class exchange_lost_ranks_gpu_processes : public testing::TestWithParam<way_beyond> {};
INSTANTIATE_TEST_SUITE_P(ways, exchange_lost_ranks_gpu_processes, testing::ValuesIn(every_way_beyond),
                         name_of_groups);

TEST_P(exchange_lost_ranks_gpu_processes, that_are_killed_in_a_round_are_named_by_every_survivor) {
  if (const std::string why = why_not_beyond(); !why.empty()) GTEST_SKIP() << why;
  const way_beyond& way = GetParam();
  const exchange_case c = way.of({4, sizes(16, 6, 1024, 64), {64, 64, 64, 64}, routing::distinct});
  expect_the_killed_named_in_rounds(c, device_kind::cuda, 1,
                                    std::chrono::microseconds{20'000 + 13 * way.group});
}

class exchange_graphs_beyond_gpu_processes : public ranks_beyond {};
INSTANTIATE_TEST_SUITE_P(ranks, exchange_graphs_beyond_gpu_processes,
                         testing::Values(groups_beyond{2, 1, one}, groups_beyond{2, 1, two},
                                         groups_beyond{4, 2, one}, groups_beyond{4, 2, two}),
                         name_of_groups);

/// A rank's round as a graph, replayed with other inputs in the same buffers.
void expect_right_replays_beyond(const exchange_case& c, const world& w, calls how) {
  captured_rank captured;
  if (cudaSetDevice(w.device_index()) != cudaSuccess ||
      cudaStreamCreateWithFlags(&captured.stream, cudaStreamNonBlocking) != cudaSuccess)
    throw std::runtime_error{"no stream"};
  {
    exchange_rank mine{expert_parallel::create(w, c.config), stream_ref{captured.stream}};
    const auto own = static_cast<std::size_t>(w.rank());
    mine.load(draw_inputs(c, 1)[own]);
    w.synchronize({captured.stream});
    capture_round(mine, captured, [how](exchange_rank& rank) { enqueue_identity_round(rank, how); });
    if (captured.graph == nullptr) throw std::runtime_error{"not captured"};
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
      const rank_inputs in = draw_inputs(c, seed)[own];
      mine.load(in);
      if (cudaGraphLaunch(captured.graph, captured.stream) != cudaSuccess)
        throw std::runtime_error{"not launched"};
      if (const std::string wrong = difference(identity_output(c, in, w.rank()), mine.read_output());
          !wrong.empty())
        throw std::runtime_error{fmt::format("replay {}: {}", seed, wrong)};
    }
  }
  std::vector<captured_rank> all{captured};
  destroy(all);
}

TEST_P(exchange_graphs_beyond_gpu_processes, replays_with_other_inputs_are_right_to_the_bit) {
  const groups_beyond& groups = GetParam();
  expect_of_processes(groups.ranks, device_kind::cuda, [&](const world& w) {
    for (const calls how : {calls::fused, calls::apart}) {
      exchange_case c = usual_of(groups, sizes(24, 4, 256, 40));
      c.ids = routing::sparse;
      expect_right_replays_beyond(c, w, how);
      c.config.layout = ep_layout::per_expert;
      if (groups.levels == one) expect_right_replays_beyond(c, w, how);
    }
    return true;
  });
}

}  // namespace
}  // namespace baton::test::two_levels_beyond
