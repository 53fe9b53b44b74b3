// Experts with rows of their own: ep_config::rows_of_expert.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "baton/error.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/exchange_cases.hpp"

namespace baton::test {
namespace {

/// As few as there have to be, and `more` times the alignment.
int least_rows(const exchange_case& c, int more) {
  const int align = c.config.format == token_format::blockwise_fp8 ? 4 : c.config.tiled_scales ? 128 : 1;
  return (c.ranks * c.config.num_max_tokens_per_rank + align - 1) / align * align + more * align;
}
exchange_case with_places(exchange_case c, int more = 0) {
  c.config.num_max_tokens_per_rank = std::max(1, *std::ranges::max_element(c.tokens));
  c.config.rows_of_expert = least_rows(c, more);
  return c;
}

class exchange_rows_of_expert : public testing::TestWithParam<std::tuple<int, token_format>> {};

TEST_P(exchange_rows_of_expert, every_row_lies_where_its_expert_has_them_and_every_sum_is_right_to_the_bit) {
  const auto [num_ranks, format] = GetParam();
  const auto worlds = world::local(num_ranks, device_kind::cpu);
  for (const named_case& c : conformance_cases(num_ranks)) {
    SCOPED_TRACE(c.name);
    const exchange_case what =
        with_places(per_rank(c.what, format), c.what.config.num_experts % 2 == 1 ? 3 : 0);
    std::vector<exchange_way> ways;
    for (const ep_transfer transfer : every_transfer) {
      if (!carries(transfer, format)) continue;
      for (const calls how : {calls::apart, calls::fused}) {
        ep_config config = what.config;
        config.transfer = transfer;
        config.weights_at_combine = (how == calls::fused) == (format == token_format::bf16);
        ways.push_back(
            {fmt::format("{}, {}", name(transfer), how == calls::apart ? "apart" : "fused"), config, how});
      }
    }
    expect_rounds_in_every_way(worlds, what, ways);
  }
}

// One kernel is all numbers of ranks' on the CPU machine. With 2 and 4 there are tests below.
INSTANTIATE_TEST_SUITE_P(cpu, exchange_rows_of_expert,
                         testing::Combine(testing::Values(1, 3, 8),
                                          testing::Values(token_format::bf16, token_format::blockwise_fp8)));
INSTANTIATE_TEST_SUITE_P(narrow, exchange_rows_of_expert,
                         testing::Combine(testing::Values(3),
                                          testing::Values(token_format::mxfp8, token_format::mxfp4,
                                                          token_format::nvfp4)));

class exchange_rows_of_expert_by : public testing::TestWithParam<ep_transfer> {};

INSTANTIATE_TEST_SUITE_P(cpu, exchange_rows_of_expert_by, testing::ValuesIn(every_transfer),
                         [](const auto& how) { return name(how.param); });

TEST_P(exchange_rows_of_expert_by, what_was_received_is_what_combine_takes_and_the_host_is_told_of_all_rows) {
  exchange_case c =
      per_rank({3, sizes(10, 3, 64, 5), {5, 2, 4}, routing::distinct}, token_format::bf16, GetParam());
  c.config.rows_of_expert = 17;
  auto ranks = make_ranks(world::local(3, device_kind::cpu), c.config);
  auto inputs = draw_inputs(c, 1);
  std::vector<std::vector<std::int32_t>> told(3);
  for (std::size_t r = 0; r < 3; ++r) {
    const int local = experts_of_rank(10, 3, static_cast<int>(r)).count;
    told[r].assign(static_cast<std::size_t>(local) + 1, -1);
    ranks[r].options.host_counts = told[r].data();
    ranks[r].load(inputs[r]);
    ranks[r].dispatch();
  }
  for (std::size_t r = 0; r < 3; ++r)
    ranks[r].combine(static_cast<const bfloat16*>(ranks[r].received().tokens));
  for (std::size_t r = 0; r < 3; ++r) {
    const auto out = ranks[r].read_output();
    const received_tokens& got = ranks[r].received();
    EXPECT_EQ(got.max_rows, 4 * 17);
    for (int e = 0; e <= got.num_local_experts; ++e) EXPECT_EQ(got.row_offsets[e], 17 * e);
    EXPECT_EQ(told[r].back(), 17 * got.num_local_experts);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::size_t t = i / 64;
      float sum = 0;
      for (int from = 0; from < 3; ++from) {
        float part = 0;
        for (std::size_t k = 3 * t; k < 3 * t + 3; ++k)
          if (rank_of_expert(c, inputs[r].topk_idx[k]) == from)
            part = std::fma(inputs[r].topk_weights[k], static_cast<float>(inputs[r].tokens[i]), part);
        sum += from == static_cast<int>(r) ? part : static_cast<float>(bfloat16{part});
      }
      ASSERT_EQ(out[i], sum) << "rank " << r << ", value " << i;
    }
  }
}

TEST(exchange_rows_of_expert, scales_in_tiles_begin_with_each_experts_rows) {
  for (const ep_transfer transfer : {ep_transfer::lines, ep_transfer::chunks}) {
    exchange_case c =
        per_rank({2, sizes(6, 3, 256, 9), {9, 5}, routing::distinct}, token_format::mxfp8, transfer);
    c.config.tiled_scales = true;
    c = with_places(c, 1);
    auto ranks = make_ranks(world::local(2, device_kind::cpu), c.config);
    for (std::uint64_t seed = 1; seed <= 2; ++seed) EXPECT_EQ(run_round(c, ranks, seed, calls::fused), "");
  }
}

TEST(exchange_rows_of_expert, tokens_of_ranks_beyond_the_group_lie_there_too) {
  exchange_case c = with_places(per_rank({4, sizes(9, 3, 64, 6), {6, 2, 0, 5}, routing::distinct}));
  c.config.p2p_group_size = 2;
  auto ranks = make_ranks(world::local(4, device_kind::cpu), c.config);
  for (std::uint64_t seed = 1; seed <= 2; ++seed) EXPECT_EQ(run_round(c, ranks, seed, calls::apart), "");
}

TEST(exchange_rows_of_expert, what_cannot_have_them_says_so) {
  const exchange_case c =
      per_rank({2, sizes(8, 2, 128, 6), {}, routing::distinct}, token_format::blockwise_fp8);
  const auto reason = [&](auto change) {
    ep_config config = c.config;
    config.rows_of_expert = 12;
    change(config);
    return why_not(config, 2);
  };
  EXPECT_EQ(reason([](ep_config&) {}), "");
  EXPECT_TRUE(says(reason([](ep_config& e) { e.rows_of_expert = 11; }), "rows_of_expert: 11", "12 rows",
                   "2 ranks of 6"));
  EXPECT_TRUE(says(reason([](ep_config& e) { e.rows_of_expert = -1; }), "rows_of_expert: -1"));
  EXPECT_TRUE(
      says(reason([](ep_config& e) { e.rows_of_expert = 14; }), "rows_of_expert: 14", "multiple of 4"));
  EXPECT_TRUE(
      says(reason([](ep_config& e) { e.layout = ep_layout::per_expert; }), "rows_of_expert", "per_rank"));
  EXPECT_TRUE(says(reason([](ep_config& e) { e.rows = ep_rows::by_token; }), "rows_of_expert", "by_expert"));
  EXPECT_TRUE(says(reason([](ep_config& e) {
                     e.rows_of_expert = 1 << 30;
                     e.num_experts = 1024;
                   }),
                   "rows_of_expert: 1073741824", "GiB"));
}

TEST(exchange_rows_of_expert, take_so_many_rows_of_each_expert) {
  for (const ep_transfer transfer : every_transfer) {
    ep_config c =
        per_rank({2, sizes(9, 3, 1024, 6), {}, routing::distinct}, token_format::bf16, transfer).config;
    const workspace_size before = workspace_bytes(c, 2);
    c.rows_of_expert = 100;
    const workspace_size with = workspace_bytes(c, 2);
    EXPECT_EQ(with.window, before.window);
    const std::size_t more = 5 * 100 - 2 * 6 * 3;  // rows
    EXPECT_NEAR(static_cast<double>(with.local - before.local), static_cast<double>(more * (2048 + 16)), 512);
  }
}

}  // namespace
}  // namespace baton::test
