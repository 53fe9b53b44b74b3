// Layout per_rank on the CPU: the conformance suite, fused and apart, and what differs from per_expert.
#include "baton/error.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/exchange_cases.hpp"

namespace baton::test {
namespace {

exchange_case per_rank(exchange_case c, token_format format = token_format::bf16) {
  c = with(c, format, arrival_policy::epoch);
  c.config.layout = ep_layout::per_rank;
  return c;
}

class exchange_per_rank : public testing::TestWithParam<std::tuple<int, token_format, calls>> {};

TEST_P(exchange_per_rank, every_row_and_every_sum_is_right_to_the_bit) {
  const auto [num_ranks, format, how] = GetParam();
  const auto worlds = world::local(num_ranks, device_kind::cpu);
  for (const named_case& c : conformance_cases(num_ranks)) {
    const exchange_case what = per_rank(c.what, format);
    auto ranks = make_ranks(worlds, what.config);
    for (std::uint64_t seed = 1; seed <= 3; ++seed)
      EXPECT_EQ(run_round(what, ranks, seed, how), "") << c.name;
    for (auto& r : ranks) EXPECT_NO_THROW(r.ep().check());
  }
}

INSTANTIATE_TEST_SUITE_P(cpu, exchange_per_rank,
                         testing::Combine(testing::Values(1, 2, 3, 4, 8),
                                          testing::Values(token_format::bf16, token_format::blockwise_fp8),
                                          testing::Values(calls::apart, calls::fused)));

TEST(exchange_per_rank_grid, any_number_of_blocks_and_threads_gives_the_same_bits) {
  const auto worlds = world::local(3, device_kind::cpu);
  for (const auto& [sms, threads] : {std::pair{1, 96}, {1, 128}, {5, 96}, {7, 256}, {33, 160}}) {
    exchange_case c = per_rank({3, sizes(10, 4, 264, 40), {40, 3, 0}, routing::distinct});
    c.config.num_sms = sms;
    c.config.num_threads = threads;
    auto ranks = make_ranks(worlds, c.config);
    for (std::uint64_t seed = 1; seed <= 2; ++seed)
      EXPECT_EQ(run_round(c, ranks, seed, calls::fused), "") << sms << " blocks of " << threads;
  }
}

TEST(exchange_per_rank_rounds, a_thousand_rounds_with_changing_routing_and_calls_need_no_reset) {
  const auto worlds = world::local(3, device_kind::cpu);
  exchange_case c = per_rank({3, sizes(7, 2, 16, 6), {6, 6, 6}, routing::sparse});
  auto ranks = make_ranks(worlds, c.config);
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    c.tokens = {static_cast<int>(seed % 7), static_cast<int>(seed / 7 % 7), static_cast<int>(seed / 49 % 7)};
    ASSERT_EQ(run_round(c, ranks, seed, seed % 3 == 0 ? calls::apart : calls::fused), "");
  }
}

TEST(exchange_per_rank_limits, as_many_tokens_as_a_block_can_keep_the_routing_of_and_a_reason_for_more) {
  ep_config c = sizes(256, 8, 7168, 2048);
  c.layout = ep_layout::per_rank;
  EXPECT_EQ(why_not(c, 2), "");
  c.num_max_tokens_per_rank = 4096;
  EXPECT_TRUE(says(why_not(c, 2), "num_max_tokens_per_rank", "layout per_rank"));
  c.num_max_tokens_per_rank = 1024;
  EXPECT_EQ(why_not(c, 8), "");
  c.num_threads = 1024;
  EXPECT_TRUE(says(why_not(c, 8), "num_threads: 1024", "[96, 768]"));
}

TEST(exchange_per_rank_limits, a_hundred_tokens_of_eight_ranks_take_less_than_64_mib_of_window) {
  ep_config c = sizes(256, 8, 7168, 128);
  c.layout = ep_layout::per_rank;
  c.format = token_format::blockwise_fp8;
  EXPECT_LE(workspace_bytes(c, 8).window, std::size_t{64} << 20);
}

TEST(exchange_per_rank_calls, weights_are_given_once_and_at_dispatch) {
  const auto worlds = world::local(1, device_kind::cpu);
  ep_config c = sizes(4, 2, 16, 4);
  c.layout = ep_layout::per_rank;
  auto ranks = make_ranks(worlds, c);
  std::vector<float> weights(8), out(64);
  std::vector<bfloat16> rows(4096);
  expert_parallel& ep = ranks[0].ep();
  ep.dispatch_async(nullptr, nullptr, 0);
  ep.dispatch_wait();
  ep.combine_async(rows.data());
  EXPECT_THROW(ep.combine_wait(weights.data(), out.data()), invalid_argument);
  EXPECT_THROW(ep.combine_wait_unreduced(rows.data()), invalid_argument);
  ep.combine_wait(nullptr, out.data());
  EXPECT_NO_THROW(worlds[0].synchronize());
}

}  // namespace
}  // namespace baton::test
