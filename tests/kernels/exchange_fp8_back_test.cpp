// Sums that travel back in block FP8: the same bits however they travel, and as near as one rounding allows.
#include <limits>
#include <tuple>

#include "baton/error.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/fp8_back_cases.hpp"
#include "tests/support/identity_experts.hpp"
#include "tests/support/shared_cases.hpp"

namespace baton::test {
namespace {

constexpr token_format fp8 = token_format::blockwise_fp8;

class exchange_fp8_back : public testing::TestWithParam<std::tuple<travel, int>> {
 protected:
  static travel how() { return std::get<0>(GetParam()); }
  static int ranks() { return std::get<1>(GetParam()); }
  static std::vector<world> worlds() { return world::local(ranks(), device_kind::cpu); }
};

std::vector<travel> every_travel_of_sums() {
  return {std::begin(every_travel) + 1, std::end(every_travel)};
}
static_assert(every_travel[0] == travel::by_expert, "which has no sums");

INSTANTIATE_TEST_SUITE_P(cpu, exchange_fp8_back,
                         testing::Combine(testing::ValuesIn(every_travel_of_sums()), testing::Values(1, 3)),
                         [](const auto& one) {
                           return name(std::get<0>(one.param)) + std::to_string(std::get<1>(one.param));
                         });

TEST_P(exchange_fp8_back, every_sum_is_right_to_the_bit_in_every_form_and_output) {
  for (const named_case& c : fp8_back_cases(ranks())) {
    SCOPED_TRACE(c.name);
    expect_shared_rounds(worlds(), travelling(how(), c.what));
  }
}

TEST_P(exchange_fp8_back, what_shared_experts_made_is_added_as_it_is) {
  for (named_case& c : fp8_back_cases(ranks())) {
    SCOPED_TRACE(c.name);
    c.what.shared_experts = true;
    expect_shared_rounds(worlds(), travelling(how(), c.what));
  }
}

TEST_P(exchange_fp8_back, tokens_may_travel_in_fp8_too) {
  exchange_case c = travelling(how(), fp8_back_cases(ranks())[0].what, fp8);
  expect_shared_rounds(worlds(), c);
}

/// What becomes of a round's tokens, experts being the identity; of each rank.
std::vector<std::vector<float>> outputs_of(const exchange_case& c, const std::vector<rank_inputs>& inputs) {
  auto ranks = make_ranks(world::local(c.ranks, device_kind::cpu), c.config);
  EXPECT_EQ(run_round(expected_round{c, inputs}, ranks, calls::fused), "");
  std::vector<std::vector<float>> all;
  for (exchange_rank& rank : ranks) all.push_back(rank.read_output());
  return all;
}

/// A block's scale is a rounding of max(m, 1e-4) / 448, so that its values are at most 448 of it, and e4m3 keeps 4 bits of what
/// is not subnormal: an error of 2^-4 of the value, or of half of 2^-9 of the scale. Scaling, its inverse and sums in fp32 add
/// roundings of 2^-24 each.
double allowed(double value, double largest) {
  const double scale = std::max(largest, 1e-4) / 448;
  return 1.0001 * std::max(std::fabs(value) * 0x1p-4, scale * 0x1p-10) + 0x1p-20 * largest;
}

/// Magnitudes of each rank's part of a token in double, without a rounding.
std::vector<double> exact_part(const exchange_case& c, const rank_inputs& in, std::size_t token,
                               int of_rank) {
  const auto hidden = static_cast<std::size_t>(c.config.hidden), k = static_cast<std::size_t>(c.config.top_k);
  std::vector<double> part(hidden, 0.0);
  for (std::size_t i = token * k; i < (token + 1) * k; ++i) {
    if (in.topk_idx[i] < 0 || rank_of_expert(c, in.topk_idx[i]) != of_rank) continue;
    const float factor = expert_factor(in.topk_idx[i]);
    for (std::size_t h = 0; h < hidden; ++h) {
      const bfloat16 made{static_cast<float>(in.tokens[token * hidden + h]) * factor};
      part[h] += static_cast<double>(in.topk_weights[i]) * static_cast<double>(static_cast<float>(made));
    }
  }
  return part;
}

TEST_P(exchange_fp8_back, a_result_is_wrong_by_one_rounding_of_what_other_ranks_made_at_most) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const exchange_case c = travelling(how(), fp8_back_cases(ranks())[0].what);
    const auto inputs = draw_inputs(c, seed);
    const auto got = outputs_of(c, inputs);
    const auto hidden = static_cast<std::size_t>(c.config.hidden);
    for (std::size_t r = 0; r < got.size(); ++r)
      for (std::size_t t = 0; t < static_cast<std::size_t>(inputs[r].num_tokens); ++t) {
        std::vector<double> sum(hidden, 0.0), bound(hidden, 0.0);
        for (int of = 0; of < c.ranks; ++of) {
          const auto part = exact_part(c, inputs[r], t, of);
          for (std::size_t h = 0; h < hidden; ++h) {
            double largest = 0;
            for (std::size_t i = h / 128 * 128; i < h / 128 * 128 + 128; ++i)
              largest = std::max(largest, std::fabs(part[i]));
            sum[h] += part[h];
            bound[h] += of == static_cast<int>(r) ? 0x1p-20 * largest : allowed(part[h], largest);
          }
        }
        for (std::size_t h = 0; h < hidden; ++h)
          ASSERT_LE(std::fabs(static_cast<double>(got[r][t * hidden + h]) - sum[h]), bound[h])
              << "seed " << seed << ", rank " << r << ", token " << t << ", column " << h;
      }
  }
}

TEST(exchange_fp8_back, is_the_same_bits_however_sums_travel) {
  for (const named_case& c : fp8_back_cases(3)) {
    SCOPED_TRACE(c.name);
    const auto inputs = draw_inputs(c.what, 7);
    const auto first = outputs_of(travelling(travel::in_lines, c.what), inputs);
    for (const travel how : every_travel_of_sums()) {
      const auto again = outputs_of(travelling(how, c.what), inputs);
      for (std::size_t r = 0; r < first.size(); ++r)
        EXPECT_EQ(difference(first[r], again[r]), "") << name(how) << ", rank " << r;
    }
  }
}

TEST(exchange_fp8_back, of_few_values_among_large_ones_and_of_none_is_as_its_block_says) {
  for (const travel how : every_travel_of_sums()) {
    const exchange_case c = travelling(how, fp8_back_cases(2)[0].what);
    auto ranks = make_ranks(world::local(2, device_kind::cpu), c.config);
    auto inputs = draw_inputs(c, 3);
    for (rank_inputs& in : inputs)
      for (std::size_t i = 0; i < in.tokens.size(); ++i) {
        const std::size_t block = i / 128 % 4;
        if (block == 0) in.tokens[i] = bfloat16{0.0f};
        if (block == 1 && i % 128 != 77) in.tokens[i] = bfloat16{static_cast<float>(in.tokens[i]) * 1e-6f};
        if (block == 2) in.tokens[i] = bfloat16{static_cast<float>(in.tokens[i]) * 1e-30f};
        if (block == 3) in.tokens[i] = bfloat16{static_cast<float>(in.tokens[i]) * 1e30f};
      }
    for (const calls form : {calls::fused, calls::apart})
      EXPECT_EQ(run_round(expected_round{c, inputs}, ranks, form), "") << name(how);
  }
}

TEST(exchange_fp8_back, infinities_and_what_is_no_number_stay_in_their_block) {
  const float big = std::numeric_limits<float>::infinity(), none = std::numeric_limits<float>::quiet_NaN();
  for (const travel how : every_travel_of_sums()) {
    const exchange_case c = travelling(how, fp8_back_cases(2)[0].what);
    auto ranks = make_ranks(world::local(2, device_kind::cpu), c.config);
    auto inputs = draw_inputs(c, 3);
    for (rank_inputs& in : inputs)
      for (std::size_t i = 0; i < in.tokens.size(); i += 128) {
        if (i / 128 % 4 == 1) in.tokens[i + 5] = bfloat16{big};
        if (i / 128 % 4 == 2) in.tokens[i + 127] = bfloat16{none};
        if (i / 128 % 4 == 3) in.tokens[i + 64] = bfloat16{3e38f};
      }
    for (const calls form : {calls::fused, calls::apart})
      EXPECT_EQ(run_round(expected_round{c, inputs}, ranks, form), "") << name(how);
  }
}

TEST(exchange_fp8_back, of_many_scales_in_teams_is_right_to_the_bit) {
  for (const travel how : {travel::in_chunks, travel::in_chunks_by_token}) {
    exchange_case c = travelling(how, many_scales_in_teams(3).what);
    c.shared_experts = how == travel::in_chunks_by_token;
    expect_shared_rounds(world::local(3, device_kind::cpu), c, {calls::fused});
  }
}

TEST(exchange_fp8_back, by_warps_every_sum_of_a_fused_round_is_right_to_the_bit) {
  for (const travel how : {travel::in_chunks, travel::in_chunks_by_token})
    for (const named_case& one : fp8_back_cases(3)) {
      SCOPED_TRACE(one.name);
      exchange_case c = travelling(how, one.what);
      c.config.num_threads = 128;  // who says so gets warps, not teams
      expect_shared_rounds(world::local(3, device_kind::cpu), c, {calls::fused});
    }
}

ep_config config_of(ep_layout layout, int hidden, token_format back) {
  ep_config c = sizes(16, 4, hidden, 8);
  c.layout = layout;
  c.combine_format = back;
  return c;
}

TEST(exchange_fp8_back, is_refused_by_name_where_it_is_not_possible) {
  const auto why = [](ep_layout layout, int hidden, token_format back) {
    return why_not(config_of(layout, hidden, back), 2);
  };
  EXPECT_EQ(why(ep_layout::per_rank, 128, fp8), "");
  EXPECT_TRUE(says(why(ep_layout::per_expert, 128, fp8), "combine_format: fp8", "per_expert",
                   "use layout per_rank, or bf16"));
  EXPECT_TRUE(
      says(why(ep_layout::per_rank, 264, fp8), "hidden: 264 is not a multiple of 128", "combine_format fp8"));
  for (const token_format other : {token_format::mxfp8, token_format::mxfp4, token_format::nvfp4})
    EXPECT_TRUE(says(why(ep_layout::per_rank, 128, other), "combine_format", "bf16 or fp8", name(other)));
  EXPECT_TRUE(says(why(ep_layout::per_rank, 128, static_cast<token_format>(9)),
                   "combine_format: 9 is no token_format"));
}

TEST(exchange_fp8_back, is_agreed_upon) {
  const auto worlds = world::local(2, device_kind::cpu);
  std::vector<std::string> said(2);
  on_every_rank(worlds, [&](int rank) {
    const token_format back = rank == 0 ? token_format::bf16 : fp8;
    const auto r = static_cast<std::size_t>(rank);
    said[r] = message_of<invalid_argument>(
        [&] { expert_parallel::create(worlds[r], config_of(ep_layout::per_rank, 128, back)); });
  });
  for (const std::string& what : said)
    EXPECT_TRUE(says(what, "combine_format is bf16 on rank 0 and fp8 on rank 1"));
}

TEST(exchange_fp8_back, takes_less_memory_in_the_window_and_never_more) {
  for (const ep_transfer how : every_transfer)
    for (const int tokens : {1, 17, 600, 1024})
      for (int hidden = 128; hidden <= 16384; hidden += hidden < 2048 ? 128 : 1408) {
        ep_config c = sizes(16, 4, hidden, tokens);
        c.layout = ep_layout::per_rank;
        c.transfer = how;
        const workspace_size in_bf16 = workspace_bytes(c, 8);
        c.combine_format = fp8;
        const workspace_size in_fp8 = workspace_bytes(c, 8);
        EXPECT_EQ(in_fp8.local, in_bf16.local);
        EXPECT_LE(in_fp8.window, in_bf16.window) << name(how) << " " << hidden << " " << tokens;
        if (hidden < 1024) continue;
        EXPECT_LT(in_fp8.window, in_bf16.window) << name(how) << " " << hidden << " " << tokens;
      }
  ep_config c = sizes(256, 8, 7168, 4096);
  c.layout = ep_layout::per_rank;
  const std::size_t before = workspace_bytes(c, 2).window;
  c.combine_format = fp8;
  constexpr int second_word = 8;  // in bf16 a sum of two ranks comes in two parts, each with its word
  EXPECT_EQ(before - workspace_bytes(c, 2).window,
            std::size_t{2 * 4096} * (2 * 7168 + second_word - 7168 - 4 * 56));
}

}  // namespace
}  // namespace baton::test
