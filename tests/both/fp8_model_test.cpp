// The small model with weights in FP8: layers against bounds, logits and greedy texts.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "cli/model/reference_moe.hpp"
#include "cli/prompts.hpp"
#include "tests/support/fp8_texts.hpp"
#include "tests/support/fp8_tiny_moe.hpp"
#include "tests/support/layer_cases.hpp"

namespace baton::test {
namespace {

cli::exchange_options fp8_options(int num_ranks, token_format format = token_format::bf16) {
  cli::exchange_options options;
  options.num_ranks = num_ranks;
  options.format = format;
  options.layout = ep_layout::per_expert;
  return options;
}

/// The fixtures' first tokens: bounds take most of the time.
model::routed_tokens first_tokens(int layer) {
  return in_blocks(checked_tokens(layer), 4)[0];
}

/// A layer's output for first_tokens beside what it is exactly, or with the fixtures' bf16 weights.
cli::layer_error error_of_layer(int layer, const std::vector<float>& found,
                                const model::expert_matrices& exact, model::weight_rounding weights) {
  ep_config config;
  config.num_experts = tiny_moe().config().num_experts;
  config.layout = ep_layout::per_expert;
  model::moe_rounding rounding = cli::rounding_of(config, device_kind::cpu, {}, weight_format::block_fp8);
  rounding.weights = weights;
  const model::bounded_moe bounds = model::moe_error_bound(exact, first_tokens(layer), rounding);
  std::vector<float> expected = model::to_float(fixture(layer, "moe_output"));
  if (weights == model::weight_rounding::none) expected.assign(bounds.exact.begin(), bounds.exact.end());
  expected.resize(found.size());
  return cli::measure(bounds, expected, found, tiny_moe().config().hidden_size);
}

TEST(fp8_layers, are_within_their_bound_of_exact_results_with_the_same_weights_and_with_the_bf16_ones) {
  cli::exchange_moe experts{fp8_tiny_moe(), all_layers(), fp8_options(3)};
  for (const int layer : all_layers()) {
    const std::vector<float> found = run_layer(experts, layer, first_tokens(layer));
    const cli::layer_error of_stored =
        error_of_layer(layer, found, fp8_tiny_moe().experts(layer, 0, 64), model::weight_rounding::none);
    const cli::layer_error of_bf16 =
        error_of_layer(layer, found, tiny_moe().experts(layer, 0, 64), model::weight_rounding::to_block_fp8);
    EXPECT_LE(of_stored.worst.ratio, 1.0) << "layer " << layer;
    EXPECT_LE(of_bf16.worst.ratio, 1.0) << "layer " << layer;
    EXPECT_LT(of_stored.rms_relative, of_bf16.rms_relative) << "rounded weights are the larger part";
    EXPECT_LT(of_bf16.rms_relative, typical_fp8_layer) << "layer " << layer;
    EXPECT_GT(of_stored.rms_relative, 0x1p-8) << "rows are rounded to FP8 as well";
  }
}

TEST(fp8_layers, planted_scales_of_another_expert_are_noticed) {
  const cli::expert_source wrong = [](int layer, int first, int count) {
    model::expert_matrices own = fp8_tiny_moe().experts(layer, first, count);
    own.fp8.up_scales = fp8_tiny_moe().experts(layer, (first + 1) % 64, 1).fp8.up_scales;
    return own;
  };
  const cli::expert_source one_by_one = [&wrong](int layer, int first, int count) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
    std::iota(ids.begin(), ids.end(), first);
    return cli::gathered(wrong, layer, ids);
  };
  cli::exchange_moe experts{fp8_tiny_moe().config(), one_by_one, std::vector{1}, fp8_options(1)};
  const cli::layer_error error =
      error_of_layer(1, run_layer(experts, 1, first_tokens(1)), tiny_moe().experts(1, 0, 64),
                     model::weight_rounding::to_block_fp8);
  EXPECT_GT(error.rms_relative, typical_fp8_layer);
}

TEST(fp8_layers, how_tokens_travel_and_to_how_many_ranks_does_not_change_a_bit) {
  const model::routed_tokens tokens = in_blocks(fixture_tokens(1), 16)[0];
  cli::exchange_moe alone{fp8_tiny_moe(), std::vector{1}, fp8_options(1)};
  const std::vector<float> expected = run_layer(alone, 1, tokens);
  cli::exchange_options several = fp8_options(4, token_format::blockwise_fp8);
  several.num_replicas = 9;
  cli::exchange_moe others{fp8_tiny_moe(), std::vector{1}, several};
  EXPECT_EQ(run_layer(others, 1, tokens), expected) << "FP8 before they travel, or after";
}

TEST(fp8_layers, narrower_tokens_are_within_their_bound_too) {
  const cli::exchange_options options = fp8_options(2, token_format::nvfp4);
  cli::exchange_moe experts{fp8_tiny_moe(), std::vector{1}, options};
  const model::routed_tokens tokens = in_blocks(fixture_tokens(1), 32)[0];
  const auto rounding = cli::rounding_of(experts.config(), device_kind::cpu, {}, weight_format::block_fp8);
  const auto bounds = model::moe_error_bound(fp8_tiny_moe().experts(1, 0, 64), tokens, rounding);
  EXPECT_LE(model::compare(bounds, run_layer(experts, 1, tokens), 256).ratio, 1.0);
}

TEST(fp8_experts, take_half_the_memory_and_what_scales_take) {
  const auto weights = [](const model::checkpoint& from) {
    const std::vector<int> none;
    cli::exchange_moe with{from, all_layers(), fp8_options(2)}, without{from, none, fp8_options(2)};
    EXPECT_EQ(with.weights_format(),
              from.config().allows_fp8 ? weight_format::block_fp8 : weight_format::bf16);
    return with.device_bytes() - without.device_bytes();
  };
  const std::size_t values = 3ul * 64 * 3 * 64 * 256;  // matrices are half a block wide: two scales each
  EXPECT_EQ(weights(tiny_moe()), 2 * values);
  EXPECT_EQ(weights(fp8_tiny_moe()), values + 3ul * 64 * 3 * 2 * sizeof(float));
}

/// Root of sum (found - expected)^2 over sum (expected - their position's mean)^2: what softmax sees.
double relative_difference(const std::vector<float>& found, const std::vector<float>& expected) {
  constexpr std::ptrdiff_t vocabulary = 256;
  double differences = 0, squares = 0;
  for (auto row = expected.begin(); row != expected.end(); row += vocabulary) {
    const double mean = std::accumulate(row, row + vocabulary, 0.0) / vocabulary;
    for (auto at = row; at != row + vocabulary; ++at) {
      const double off = static_cast<double>(found[static_cast<std::size_t>(at - expected.begin())]) -
                         static_cast<double>(*at);
      differences += off * off;
      squares += (static_cast<double>(*at) - mean) * (static_cast<double>(*at) - mean);
    }
  }
  return std::sqrt(differences / squares);
}

TEST(fp8_logits, are_as_near_to_those_of_bf16_weights_as_independent_roundings_leave_them) {
  cli::exchange_moe narrow{fp8_tiny_moe(), all_layers(), fp8_options(1)};
  cli::exchange_moe wide{tiny_moe(), all_layers(), fp8_options(1)};
  model::qwen3_moe network{fp8_tiny_moe()};
  for (const cli::prompt& p : cli::read_expectations(tiny_moe_folder() / "greedy.json")) {
    const std::string text = p.text + *p.expected;
    const double off =
        relative_difference(logits_of_text(network, narrow, text), logits_of_text(network, wide, text));
    EXPECT_LT(off, typical_fp8_logits) << p.text;
    EXPECT_GT(off, 0x1p-8) << "FP8 cannot be as near as bf16";
  }
}

/// As recorded once. Three are those of the bf16 weights; where the two others part, the first two letters are as good.
TEST(fp8_greedy_texts, are_the_recorded_ones_on_any_ranks_however_tokens_travel) {
  const auto recorded = cli::read_expectations(tiny_moe_folder() / "greedy-fp8.json");
  const std::vector<std::string> alone = fp8_continuations(fp8_options(1));
  ASSERT_EQ(recorded.size(), alone.size());
  for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_EQ(alone[i], recorded[i].expected) << "prompt " << i;
  EXPECT_EQ(fp8_continuations(fp8_options(3)), alone);
  EXPECT_EQ(fp8_continuations(fp8_options(4, token_format::blockwise_fp8)), alone);
}

TEST(fp8_greedy_texts, part_from_those_of_bf16_weights_where_two_letters_are_nearly_alike) {
  cli::exchange_moe experts{tiny_moe(), all_layers(), fp8_options(1)};
  expect_near_letters_where_texts_part(fp8_continuations(fp8_options(1)), "greedy.json", tiny_moe(), experts);
}

}  // namespace
}  // namespace baton::test
