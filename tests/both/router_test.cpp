#include "cli/model/router.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "baton/error.hpp"
#include "tests/cpu/says.hpp"
#include "tests/cpu/tiny_moe.hpp"

namespace {

using namespace baton;
using namespace baton::model;
using baton::test::message_of;
using baton::test::says;

/// fp32 routing against exact routing. A logit is a sum of n products: off by at most gamma(n) times the sum of their
/// magnitudes, and the exponential turns that into a relative error of a probability. Softmax and renormalising add
/// a few roundings per expert. `magnitude` is the largest such sum.
double weight_tolerance(const router& r, double magnitude) {
  const double logit_error = (r.shape().hidden + 8) * 0x1p-24 * magnitude;
  return 2 * logit_error + (2 * r.shape().num_experts + 16) * 0x1p-24;  // numerator and denominator
}

double largest_logit_magnitude(const router& r, std::span<const bfloat16> hidden) {
  const auto width = static_cast<std::size_t>(r.shape().hidden);
  double largest = 0;
  for (std::size_t t = 0; t * width < hidden.size(); ++t) {
    for (std::size_t e = 0; e < static_cast<std::size_t>(r.shape().num_experts); ++e) {
      double sum = 0;
      for (std::size_t i = 0; i < width; ++i) {
        sum += std::fabs(double{r.weight()[e * width + i]} * static_cast<float>(hidden[t * width + i]));
      }
      largest = std::max(largest, sum);
    }
  }
  return largest;
}

class fixture_router : public testing::TestWithParam<int> {};

TEST_P(fixture_router, chooses_the_fixtures_experts_with_their_weights) {
  const router r = test::tiny_moe().layer_router(GetParam());
  const auto expected = test::fixture_tokens(GetParam());
  const auto routed = r.route(expected.hidden);
  EXPECT_EQ(routed.tokens, expected.tokens);
  EXPECT_EQ(routed.topk_idx, expected.topk_idx);
  // The fixtures' weights are fp32 sums of their own, so both sides may err.
  const double tolerance = 2 * weight_tolerance(r, largest_logit_magnitude(r, expected.hidden));
  ASSERT_LT(tolerance, 1e-2);
  for (std::size_t i = 0; i < routed.topk_weights.size(); ++i) {
    ASSERT_NEAR(routed.topk_weights[i], expected.topk_weights[i], tolerance * expected.topk_weights[i]) << i;
  }
}

TEST_P(fixture_router, agrees_with_double_precision) {
  const router r = test::tiny_moe().layer_router(GetParam());
  const auto hidden = test::fixture_tokens(GetParam()).hidden;
  const auto routed = r.route(hidden);
  const auto exact = route_in_double(r, hidden);
  EXPECT_EQ(routed.topk_idx, exact.topk_idx);
  const double tolerance = weight_tolerance(r, largest_logit_magnitude(r, hidden));
  for (std::size_t i = 0; i < routed.topk_weights.size(); ++i) {
    ASSERT_NEAR(routed.topk_weights[i], exact.topk_weights[i], tolerance * exact.topk_weights[i]) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(layers, fixture_router, testing::Range(0, 3));

/// Two values a token, four experts whose logits are the weights' first column for token {1, 0}.
router four_experts(std::vector<float> logits, int top_k, bool renormalise) {
  std::vector<float> weight;
  for (const float l : logits) weight.insert(weight.end(), {l, 0.0f});
  return router{{4, 2, top_k, renormalise}, weight};
}
const std::vector<bfloat16> one_token{bfloat16{1.0f}, bfloat16{0.0f}};

TEST(router, ties_go_to_the_lower_id) {
  const auto routed = four_experts({1, 2, 2, 2}, 2, true).route(one_token);
  EXPECT_EQ(routed.topk_idx, (std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(routed.topk_weights, (std::vector<float>{0.5f, 0.5f}));
}

TEST(router, weights_sum_to_one_only_when_renormalised) {
  const auto plain = four_experts({3, 2, 1, 0}, 2, false).route(one_token);
  const auto renormalised = four_experts({3, 2, 1, 0}, 2, true).route(one_token);
  const double all = std::exp(0.0) + std::exp(-1.0) + std::exp(-2.0) + std::exp(-3.0);
  EXPECT_NEAR(plain.topk_weights[0], 1 / all, 1e-6);
  EXPECT_NEAR(renormalised.topk_weights[0] + renormalised.topk_weights[1], 1.0, 1e-6);
}

TEST(router, large_logits_do_not_overflow) {
  const auto routed = four_experts({1e30f, 1e30f, -1e30f, 0}, 3, true).route(one_token);
  EXPECT_EQ(routed.topk_idx, (std::vector<std::int32_t>{0, 1, 2}));
  EXPECT_EQ(routed.topk_weights, (std::vector<float>{0.5f, 0.5f, 0.0f}));
}

TEST(router, no_tokens_are_legal) {
  const auto routed = four_experts({1, 2, 3, 4}, 2, true).route({});
  EXPECT_EQ(routed.tokens, 0);
  EXPECT_TRUE(routed.topk_idx.empty());
}

TEST(router, a_token_gets_the_same_bits_alone_and_in_a_batch) {
  const router r = test::tiny_moe().layer_router(0);
  const auto batch = test::fixture_tokens(0).hidden;
  const auto together = r.route(batch);
  const auto first_of = [](const auto& values, std::size_t at, std::size_t n) {
    return std::vector(values.begin() + static_cast<std::ptrdiff_t>(at),
                       values.begin() + static_cast<std::ptrdiff_t>(at + n));
  };
  for (const std::size_t token : {std::size_t{0}, std::size_t{17}, std::size_t{1023}}) {
    const auto alone = r.route(first_of(batch, token * 256, 256));
    EXPECT_EQ(alone.topk_weights, first_of(together.topk_weights, token * 8, 8));
  }
}

TEST(router, arguments_that_do_not_fit_are_refused_with_both_values) {
  EXPECT_TRUE(says(message_of<invalid_argument>([] {
                     router{{4, 2, 5, true}, std::vector<float>(8)};
                   }),
                   "num_experts = 4", "found 5"));
  EXPECT_TRUE(says(message_of<invalid_argument>([] {
                     router{{4, 2, 2, true}, std::vector<float>(7)};
                   }),
                   "4 * 2", "found 7"));
  const router r = four_experts({1, 2, 3, 4}, 2, true);
  EXPECT_TRUE(
      says(message_of<invalid_argument>([&] { r.route(std::vector<bfloat16>(3)); }), "found 3 values"));
  EXPECT_TRUE(says(message_of<invalid_argument>([&] {
                     r.route({bfloat16{NAN}, bfloat16{0.0f}});
                   }),
                   "finite"));
}

TEST(router, a_router_that_forgets_to_renormalise_would_be_caught) {
  const router r = test::tiny_moe().layer_router(1);
  const auto expected = test::fixture_tokens(1);
  const router forgetful{{64, 256, 8, false}, {r.weight().begin(), r.weight().end()}};
  const double tolerance = 2 * weight_tolerance(r, largest_logit_magnitude(r, expected.hidden));
  const auto wrong = forgetful.route(expected.hidden);
  EXPECT_GT(std::fabs(wrong.topk_weights[0] - expected.topk_weights[0]),
            tolerance * expected.topk_weights[0]);
}

}  // namespace
