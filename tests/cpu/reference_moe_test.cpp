#include "cli/model/reference_moe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cli/model/moe_error_bound.hpp"
#include "tests/cpu/says.hpp"
#include "tests/cpu/tiny_moe.hpp"

namespace {

using namespace baton;
using namespace baton::model;
using baton::test::message_of;
using baton::test::says;

class fixture_layer : public testing::TestWithParam<int> {};

/// sum over k of |weight_k * y_k| for each value of the output.
std::vector<double> magnitudes(const expert_matrices& experts, const routed_tokens& tokens) {
  const std::size_t top_k = tokens.topk_idx.size() / static_cast<std::size_t>(tokens.tokens);
  std::vector<double> sum(tokens.hidden.size());
  for (std::size_t k = 0; k < top_k; ++k) {
    routed_tokens one{tokens.tokens, tokens.hidden, {}, {}};
    for (std::size_t i = k; i < tokens.topk_idx.size(); i += top_k) {
      one.topk_idx.push_back(tokens.topk_idx[i]);
      one.topk_weights.push_back(tokens.topk_weights[i]);
    }
    const auto part = moe_in_double(experts, one);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += std::fabs(part[i]);
  }
  return sum;
}

/// The fixtures were computed in fp64 with fp64 weights; we are given the weights rounded to fp32, and both outputs are
/// rounded to fp32: 2^-24 of the magnitudes and 2 * 2^-24 of the value. What fp64 sums add is far below.
std::size_t values_off(int layer, const std::vector<float>& found) {
  const auto expected = to_float(test::fixture(layer, "moe_output"));
  const auto magnitude = magnitudes(test::tiny_moe().experts(layer, 0, 64), test::fixture_tokens(layer));
  std::size_t off = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double tolerance = 0x1p-24 * (magnitude[i] + 2 * std::fabs(double{expected[i]})) + 1e-12;
    if (!(std::fabs(double{found[i]} - expected[i]) <= tolerance)) ++off;
  }
  return off;
}

TEST_P(fixture_layer, gives_the_fixtures_output_and_one_changed_weight_is_seen) {
  reference_moe moe{test::tiny_moe()};
  std::vector<routed_tokens> ranks{test::fixture_tokens(GetParam())};
  std::vector<std::vector<float>> outputs(1);
  moe.run(GetParam(), ranks, outputs);
  ASSERT_EQ(outputs[0].size(), ranks[0].hidden.size());
  EXPECT_EQ(values_off(GetParam(), outputs[0]), 0u);
  ranks[0].topk_weights[8 * 500 + 7] *= 1.0001f;
  moe.run(GetParam(), ranks, outputs);
  EXPECT_GT(values_off(GetParam(), outputs[0]), 100u) << "of the 256 values of token 500";
}

INSTANTIATE_TEST_SUITE_P(layers, fixture_layer, testing::Range(0, 3));

TEST(reference_moe, tokens_on_other_ranks_and_ranks_without_tokens_change_nothing) {
  reference_moe moe{test::tiny_moe()};
  const auto all = test::fixture_tokens(0);
  const auto part = [&](std::ptrdiff_t first, std::ptrdiff_t n) {
    const auto slice = [&](const auto& v, std::ptrdiff_t width) {
      return std::vector(v.begin() + first * width, v.begin() + (first + n) * width);
    };
    return routed_tokens{static_cast<int>(n), slice(all.hidden, 256), slice(all.topk_idx, 8),
                         slice(all.topk_weights, 8)};
  };
  const std::vector<routed_tokens> together{part(0, 5)}, apart{part(0, 2), {}, part(2, 3)};
  std::vector<std::vector<float>> one(1), three(3);
  moe.run(0, together, one);
  moe.run(0, apart, three);
  EXPECT_TRUE(three[1].empty());
  three[0].insert(three[0].end(), three[2].begin(), three[2].end());
  EXPECT_EQ(one[0], three[0]);
}

/// One expert over two values, so that everything can be done by hand.
expert_matrices small_expert() {
  const auto b = [](std::vector<float> v) {
    std::vector<bfloat16> rounded;
    for (const float x : v) rounded.emplace_back(x);
    return rounded;
  };
  return {1, 2, 1, b({1, 0}), b({0, 2}), b({1, -1})};
}

TEST(reference_moe, computes_down_of_silu_gate_times_up) {
  const routed_tokens token{1, {bfloat16{1.0f}, bfloat16{3.0f}}, {0, -1}, {0.5f, 100.0f}};
  const auto y = moe_in_double(small_expert(), token);
  const double inner = 1 / (1 + std::exp(-1.0)) * 6;
  EXPECT_DOUBLE_EQ(y[0], 0.5 * inner);
  EXPECT_DOUBLE_EQ(y[1], -0.5 * inner);
}

TEST(reference_moe, arrays_that_do_not_fit_and_ids_out_of_range_are_refused) {
  const std::vector<bfloat16> x(2);
  const auto refusal = [](const routed_tokens& t) {
    return message_of<invalid_argument>([&] { moe_in_double(small_expert(), t); });
  };
  EXPECT_TRUE(says(refusal({1, x, {1}, {1.0f}}), "ids below 1", "found 1 for token 0"));
  EXPECT_TRUE(says(refusal({2, x, {0}, {1.0f}}), "2 x 2 hidden values", "found 2 values"));
  EXPECT_TRUE(says(refusal({1, x, {0}, {}}), "0 weights"));
  EXPECT_TRUE(says(refusal({-1, x, {0}, {1.0f}}), "-1 x 2"));
}

/// Imitates an implementation: each expert's row goes through `damage` before it is rounded to bf16 and weighed.
template <class Damage>
std::vector<float> imitate(const expert_matrices& experts, const routed_tokens& tokens, Damage damage) {
  const auto hidden = static_cast<std::size_t>(experts.hidden), n = static_cast<std::size_t>(tokens.tokens);
  const std::size_t top_k = tokens.topk_idx.size() / n;
  std::vector<float> sum(n * hidden);
  for (std::size_t t = 0; t < n; ++t) {
    for (std::size_t k = 0; k < top_k; ++k) {
      const auto at = static_cast<std::ptrdiff_t>(t * hidden);
      const routed_tokens one{1,
                              {tokens.hidden.begin() + at, tokens.hidden.begin() + at + experts.hidden},
                              {tokens.topk_idx[t * top_k + k]},
                              {1.0f}};
      const auto y = moe_in_double(experts, one);
      for (std::size_t i = 0; i < hidden; ++i) {
        sum[t * hidden + i] += tokens.topk_weights[t * top_k + k] * damage(static_cast<float>(y[i]), i);
      }
    }
  }
  return sum;
}

float to_bf16(float v, std::size_t) {
  return static_cast<float>(bfloat16{v});
}

routed_tokens first_tokens(int layer, int n) {
  auto t = test::fixture_tokens(layer);
  const auto count = static_cast<std::size_t>(n);
  t.tokens = n;
  t.hidden.resize(count * 256);
  t.topk_idx.resize(count * 8);
  t.topk_weights.resize(count * 8);
  return t;
}

TEST(moe_error_bound, rounding_each_expert_to_bf16_stays_within_the_bound) {
  const auto experts = test::tiny_moe().experts(2, 0, 64);
  const auto tokens = first_tokens(2, 32);
  const auto bounded = moe_error_bound(experts, tokens, {});
  EXPECT_EQ(bounded.exact, moe_in_double(experts, tokens));
  const auto worst = compare(bounded, imitate(experts, tokens, to_bf16), 256);
  EXPECT_LE(worst.ratio, 1.0);
  EXPECT_GT(worst.ratio, 0.1) << "a bound this loose would hide errors of bf16 size";
}

TEST(moe_error_bound, a_column_that_is_off_by_two_percent_is_caught) {
  const auto experts = test::tiny_moe().experts(2, 0, 64);
  const auto tokens = first_tokens(2, 32);
  const auto bounded = moe_error_bound(experts, tokens, {});
  const auto wrong = [](float v, std::size_t i) { return to_bf16(i == 77 ? v * 1.02f : v, i); };
  const auto worst = compare(bounded, imitate(experts, tokens, wrong), 256);
  EXPECT_GT(worst.ratio, 1.0);
  EXPECT_EQ(worst.column, 77);
}

TEST(moe_error_bound, a_nan_is_caught) {
  const auto experts = test::tiny_moe().experts(0, 0, 64);
  const auto tokens = first_tokens(0, 2);
  const auto bounded = moe_error_bound(experts, tokens, {});
  std::vector<float> found(bounded.exact.begin(), bounded.exact.end());
  found[300] = NAN;
  const auto worst = compare(bounded, found, 256);
  EXPECT_TRUE(std::isinf(worst.ratio));
  EXPECT_EQ(worst.token, 1);
}

/// x through blocks of 128 e4m3 values and one scale.
std::vector<bfloat16> through_fp8(const std::vector<bfloat16>& x) {
  std::vector<bfloat16> back;
  for (std::size_t first = 0; first < x.size(); first += 128) {
    float largest = 1e-4f;
    for (std::size_t i = first; i < first + 128; ++i)
      largest = std::max(largest, std::fabs(static_cast<float>(x[i])));
    const float scale =
        std::exp2(std::ceil(std::log2(largest / 448.0f)));  // a power of two: products stay bf16
    for (std::size_t i = first; i < first + 128; ++i) {
      back.emplace_back(scale * static_cast<float>(float8_e4m3{static_cast<float>(x[i]) / scale}));
    }
  }
  return back;
}

TEST(moe_error_bound, fp8_dispatch_stays_within_its_bound_and_outside_that_of_bf16) {
  const auto experts = test::tiny_moe().experts(1, 0, 64);
  const auto tokens = first_tokens(1, 32);
  auto quantised = tokens;
  quantised.hidden = through_fp8(tokens.hidden);
  const auto found = imitate(experts, quantised, to_bf16);
  EXPECT_LE(
      compare(moe_error_bound(experts, tokens, {.dispatch = token_format::blockwise_fp8}), found, 256).ratio,
      1.0);
  EXPECT_GT(compare(moe_error_bound(experts, tokens, {}), found, 256).ratio, 1.0);
}

TEST(moe_error_bound, partial_sums_are_rounded_where_they_travel_and_nowhere_else) {
  const auto experts = test::tiny_moe().experts(0, 0, 64);
  const auto tokens = first_tokens(0, 4);
  const auto plain = moe_error_bound(experts, tokens, {});
  const auto with_ranks = [&](int of_experts, int of_tokens) {
    return moe_error_bound(experts, tokens,
                           {.rank_of_expert = std::vector<int>(64, of_experts),
                            .rank_of_token = std::vector<int>(4, of_tokens)});
  };
  const auto at_home = with_ranks(0, 0), travels = with_ranks(1, 0);
  for (std::size_t i = 0; i < plain.bound.size(); ++i) {
    const double size = std::fabs(plain.exact[i]) + plain.bound[i];
    ASSERT_EQ(travels.exact[i], plain.exact[i]);
    ASSERT_LE(at_home.bound[i], plain.bound[i] + 0x1p-20 * size);
    ASSERT_NEAR(travels.bound[i], plain.bound[i] + 0x1p-8 * size, 0x1p-20 * size);
  }
}

TEST(moe_error_bound, ranks_that_do_not_fit_the_layer_are_refused) {
  const auto experts = test::tiny_moe().experts(0, 0, 64);
  const std::string text = message_of<invalid_argument>(
      [&] { moe_error_bound(experts, first_tokens(0, 4), {.rank_of_expert = {0}, .rank_of_token = {0}}); });
  EXPECT_TRUE(says(text, "1 experts", "expected 64 and 4"));
}

TEST(moe_error_bound, each_further_rounding_widens_it) {
  const auto experts = test::tiny_moe().experts(0, 0, 64);
  const auto tokens = first_tokens(0, 4);
  const auto plain = moe_error_bound(experts, tokens, {}).bound;
  const auto on_gpus = moe_error_bound(experts, tokens, {.tensor_cores = true}).bound;
  const auto fp8 =
      moe_error_bound(experts, tokens, {.tensor_cores = true, .dispatch = token_format::blockwise_fp8}).bound;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    ASSERT_LT(plain[i], on_gpus[i]);
    ASSERT_LT(on_gpus[i], fp8[i]);
  }
}

}  // namespace
