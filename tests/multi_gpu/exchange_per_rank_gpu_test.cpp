// Layout per_rank on 1, 2 and 4 GPUs of one process.
#include <tuple>

#include "tests/support/exchange_cases.hpp"
#include "tests/support/gpu_count.hpp"

namespace baton::test {
namespace {

class exchange_per_rank_gpu
    : public testing::TestWithParam<std::tuple<int, token_format, calls, ep_transfer, ep_rows>> {};

TEST_P(exchange_per_rank_gpu, every_row_and_every_sum_is_right_to_the_bit) {
  const auto [num_ranks, format, how, transfer, rows] = GetParam();
  BATON_REQUIRE_GPUS(num_ranks);
  const auto worlds = world::local(num_ranks, device_kind::cuda);
  for (const named_case& c : conformance_cases(num_ranks, 11)) {
    const exchange_case what = per_rank(c.what, format, transfer, rows);
    auto ranks = make_ranks(worlds, what.config);
    for (std::uint64_t seed = 1; seed <= 3; ++seed)
      EXPECT_EQ(run_round(what, ranks, seed, how), "") << c.name;
    for (auto& r : ranks) EXPECT_NO_THROW(r.ep().check());
  }
}

INSTANTIATE_TEST_SUITE_P(cuda, exchange_per_rank_gpu,
                         testing::Combine(testing::Values(1, 2, 4),
                                          testing::Values(token_format::bf16, token_format::blockwise_fp8),
                                          testing::Values(calls::apart, calls::fused),
                                          testing::ValuesIn(every_transfer),
                                          testing::Values(ep_rows::by_expert, ep_rows::by_token)));

INSTANTIATE_TEST_SUITE_P(narrow, exchange_per_rank_gpu,
                         testing::Combine(testing::Values(2),
                                          testing::Values(token_format::mxfp8, token_format::mxfp4,
                                                          token_format::nvfp4),
                                          testing::Values(calls::apart, calls::fused),
                                          testing::Values(ep_transfer::lines, ep_transfer::chunks),
                                          testing::Values(ep_rows::by_expert, ep_rows::by_token)));

class exchange_per_rank_gpu_by : public testing::TestWithParam<ep_transfer> {};

INSTANTIATE_TEST_SUITE_P(cuda, exchange_per_rank_gpu_by, testing::ValuesIn(every_transfer),
                         [](const auto& how) { return name(how.param); });

TEST_P(exchange_per_rank_gpu_by, ranks_that_share_a_gpu_are_right_too) {
  BATON_REQUIRE_GPUS(1);
  const int ranks_on_all = 2 * num_gpus() > 8 ? 8 : 2 * num_gpus();
  const auto worlds = world::local(ranks_on_all, device_kind::cuda);
  for (const named_case& c : conformance_cases(ranks_on_all)) {
    const exchange_case what = per_rank(c.what, token_format::bf16, GetParam());
    auto ranks = make_ranks(worlds, what.config);
    EXPECT_EQ(run_round(what, ranks, 1, calls::apart), "") << c.name;
  }
}

TEST_P(exchange_per_rank_gpu_by, a_thousand_rounds_on_the_same_buffers_with_changing_routing_need_no_reset) {
  BATON_REQUIRE_GPUS(2);
  const int n = num_gpus() >= 4 ? 4 : 2;
  const auto worlds = world::local(n, device_kind::cuda);
  exchange_case c =
      per_rank({n, sizes(24, 4, 64, 40), std::vector<int>(static_cast<std::size_t>(n)), routing::sparse},
               token_format::bf16, GetParam());
  auto ranks = make_ranks(worlds, c.config);
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    for (std::size_t r = 0; r < c.tokens.size(); ++r)
      c.tokens[r] = static_cast<int>((seed * 7 + r * 13) % 41);
    ASSERT_EQ(run_round(c, ranks, seed, seed % 3 == 0 ? calls::apart : calls::fused), "");
  }
}

TEST_P(exchange_per_rank_gpu_by, the_sizes_of_a_large_model_are_right_for_every_number_of_tokens) {
  BATON_REQUIRE_GPUS(2);
  const auto worlds = world::local(2, device_kind::cuda);
  using enum token_format;
  for (const token_format format : {blockwise_fp8, mxfp8, mxfp4, nvfp4}) {
    if (!carries(GetParam(), format)) continue;
    exchange_case c{2, sizes(256, 8, 7168, 128), {128, 128}, routing::distinct};
    c.config.format = format;
    c.config.layout = ep_layout::per_rank;
    c.config.transfer = GetParam();
    c.config.tiled_scales = format != blockwise_fp8;
    auto ranks = make_ranks(worlds, c.config);
    std::uint64_t seed = 1;
    for (const auto& tokens : {std::vector{1, 1}, {8, 5}, {0, 3}, {33, 32}, {128, 1}, {128, 128}}) {
      c.tokens = tokens;
      EXPECT_EQ(run_round(c, ranks, seed++, calls::fused), "")
          << name(format) << ", " << tokens[0] << " and " << tokens[1] << " tokens";
    }
  }
}

TEST(exchange_per_rank_gpu_prefill, as_many_tokens_as_a_prefill_has_are_right_on_few_sms_and_on_all) {
  BATON_REQUIRE_GPUS(2);
  const auto worlds = world::local(2, device_kind::cuda);
  for (const ep_rows rows : {ep_rows::by_expert, ep_rows::by_token}) {
    for (const int sms : {0, 8, 24}) {
      exchange_case c{2, sizes(256, 8, 7168, 520), {520, 300}, routing::distinct};
      c.config.format = token_format::blockwise_fp8;
      c.config.layout = ep_layout::per_rank;
      c.config.transfer = ep_transfer::chunks;
      c.config.rows = rows;
      c.config.num_sms = sms;
      auto ranks = make_ranks(worlds, c.config);
      for (const calls how : {calls::fused, calls::apart})
        EXPECT_EQ(run_round(c, ranks, 1, how), "") << sms << " SMs";
    }
  }
}

}  // namespace
}  // namespace baton::test
