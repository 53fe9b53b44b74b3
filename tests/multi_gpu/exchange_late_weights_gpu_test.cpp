// Layout per_rank on GPUs with weights that are given to combine, and experts that have rows of their own.
#include <chrono>
#include <tuple>

#include "baton/error.hpp"
#include "runtime/world_state.hpp"
#include "tests/support/exchange_cases.hpp"
#include "tests/support/gpu_count.hpp"
#include "tests/support/replayed_rounds.hpp"

namespace baton::test {
namespace {

/// Both, of as many rows as there have to be.
exchange_case as_low_latency(exchange_case c, ep_transfer transfer,
                             token_format format = token_format::bf16) {
  c = per_rank(std::move(c), format, transfer);
  c.config.weights_at_combine = true;
  c.config.rows_of_expert = (c.ranks * c.config.num_max_tokens_per_rank + 3) / 4 * 4;
  return c;
}

class exchange_late_weights_gpu
    : public testing::TestWithParam<std::tuple<int, token_format, calls, ep_transfer>> {};

TEST_P(exchange_late_weights_gpu, every_row_and_every_sum_is_right_to_the_bit) {
  const auto [num_ranks, format, how, transfer] = GetParam();
  BATON_REQUIRE_GPUS(num_ranks);
  const auto worlds = world::local(num_ranks, device_kind::cuda);
  for (const named_case& c : conformance_cases(num_ranks, 11)) {
    const exchange_case what = as_low_latency(c.what, transfer, format);
    auto ranks = make_ranks(worlds, what.config);
    for (std::uint64_t seed = 1; seed <= 3; ++seed)
      EXPECT_EQ(run_round(what, ranks, seed, how), "") << c.name;
    for (auto& r : ranks) EXPECT_NO_THROW(r.ep().check());
  }
}

INSTANTIATE_TEST_SUITE_P(cuda, exchange_late_weights_gpu,
                         testing::Combine(testing::Values(1, 2, 4),
                                          testing::Values(token_format::bf16, token_format::blockwise_fp8),
                                          testing::Values(calls::apart, calls::fused),
                                          testing::ValuesIn(every_transfer)));

class exchange_late_weights_gpu_by : public testing::TestWithParam<ep_transfer> {};

INSTANTIATE_TEST_SUITE_P(cuda, exchange_late_weights_gpu_by, testing::ValuesIn(every_transfer),
                         [](const auto& how) { return name(how.param); });

TEST_P(exchange_late_weights_gpu_by, a_thousand_rounds_with_changing_routing_and_weights_need_no_reset) {
  BATON_REQUIRE_GPUS(2);
  const int n = num_gpus() >= 4 ? 4 : 2;
  exchange_case c = as_low_latency(
      {n, sizes(24, 4, 64, 40), std::vector<int>(static_cast<std::size_t>(n)), routing::sparse}, GetParam());
  auto ranks = make_ranks(world::local(n, device_kind::cuda), c.config);
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    for (std::size_t r = 0; r < c.tokens.size(); ++r)
      c.tokens[r] = static_cast<int>((seed * 7 + r * 13) % 41);
    ASSERT_EQ(run_round(c, ranks, seed, seed % 3 == 0 ? calls::apart : calls::fused), "");
  }
}

TEST_P(exchange_late_weights_gpu_by, replays_of_a_graph_with_changing_weights_are_right_to_the_bit) {
  BATON_REQUIRE_GPUS(2);
  for (const int slots : {1, 2}) {
    exchange_case c = as_low_latency({2, sizes(24, 4, 64, 40), {40, 33}, routing::sparse}, GetParam());
    c.config.num_slots = slots;
    expect_right_replays(c);
  }
}

TEST_P(exchange_late_weights_gpu_by, the_sizes_of_a_large_model_are_right_for_every_number_of_tokens) {
  BATON_REQUIRE_GPUS(2);
  using enum token_format;
  for (const token_format format : {bf16, blockwise_fp8}) {
    exchange_case c =
        as_low_latency({2, sizes(256, 8, 7168, 128), {128, 128}, routing::distinct}, GetParam(), format);
    c.config.hidden = 7168;
    auto ranks = make_ranks(world::local(2, device_kind::cuda), c.config);
    for (const auto& tokens : {std::vector{128, 128}, {1, 1}, {32, 7}, {0, 128}}) {
      c.tokens = tokens;
      EXPECT_EQ(run_round(c, ranks, 1, calls::fused), "") << tokens[0] << " and " << tokens[1] << " tokens";
    }
  }
}

TEST_P(exchange_late_weights_gpu_by, a_rank_that_does_not_come_to_combine_is_named_with_what_was_awaited) {
  BATON_REQUIRE_GPUS(2);
  const auto worlds = world::local(2, device_kind::cuda);
  for (const world& w : worlds) w.state().deadline = std::chrono::milliseconds{500};
  const exchange_case c = as_low_latency({2, sizes(4, 4, 64, 4), {4, 4}, routing::distinct}, GetParam());
  auto ranks = make_ranks(worlds, c.config);
  const auto inputs = draw_inputs(c, 1);
  for (std::size_t r = 0; r < 2; ++r) {
    ranks[r].load(inputs[r]);
    ranks[r].dispatch();
  }
  const received_copy got = ranks[0].read_received();
  ranks[1].ranks().synchronize();
  ranks[0].apply_experts(got);
  ranks[0].combine();
  try {
    ranks[0].ranks().synchronize();
    ADD_FAILURE() << "rank 0 was not stuck";
  } catch (const stuck& e) {
    EXPECT_EQ(e.where.peer, 1);
    EXPECT_NE(std::string{e.what()}.find("combine.weights"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace baton::test
