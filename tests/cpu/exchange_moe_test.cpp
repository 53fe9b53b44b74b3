// The exchange as a backend of the model: values, bits, planted bugs, statistics and bad arguments.
#include "cli/exchange_moe.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/cpu/says.hpp"
#include "tests/support/layer_cases.hpp"

namespace baton::test {
namespace {

cli::exchange_options on_cpu(int num_ranks, token_format format = token_format::bf16) {
  cli::exchange_options options;
  options.num_ranks = num_ranks;
  options.format = format;
  return options;
}

const model::model_config& config() {
  return tiny_moe().config();
}

/// The first tokens of the fixtures.
model::routed_tokens some_tokens(int layer, int count) {
  const model::routed_tokens all = fixture_tokens(layer);
  return in_blocks(all, all.tokens / count)[0];
}

class exchange_layers : public testing::TestWithParam<int> {};

TEST_P(exchange_layers, bf16_outputs_of_all_layers_are_within_their_rounding_bound) {
  check_layers(on_cpu(GetParam()));
}

TEST_P(exchange_layers, fp8_outputs_of_all_layers_are_within_their_rounding_bound) {
  check_layers(on_cpu(GetParam(), token_format::blockwise_fp8));
}

INSTANTIATE_TEST_SUITE_P(cpu, exchange_layers, testing::Values(1, 2, 3, 4, 8));

TEST(exchange_moe, ranks_rounds_and_arrival_policy_do_not_change_a_bit) {
  for (const token_format format : {token_format::bf16, token_format::blockwise_fp8}) {
    const model::routed_tokens tokens = some_tokens(1, 64);
    cli::exchange_moe alone{tiny_moe(), std::vector{1}, on_cpu(1, format)};
    const std::vector<float> expected = run_layer(alone, 1, tokens);
    for (const arrival_policy arrival : {arrival_policy::epoch, arrival_policy::sentinel}) {
      cli::exchange_options options = on_cpu(5, format);
      options.max_tokens_per_rank = 3;  // 13 tokens a rank take five rounds
      options.arrival = arrival;
      cli::exchange_moe experts{tiny_moe(), std::vector{1}, options};
      EXPECT_EQ(run_layer(experts, 1, tokens), expected);
      EXPECT_EQ(experts.statistics().rounds, 5u);
    }
  }
}

TEST(exchange_moe, ranks_without_tokens_and_a_step_without_any_are_fine) {
  cli::exchange_moe experts{tiny_moe(), std::vector{0}, on_cpu(4)};
  const model::routed_tokens tokens = some_tokens(0, 2);
  cli::exchange_moe alone{tiny_moe(), std::vector{0}, on_cpu(1)};
  EXPECT_EQ(run_layer(experts, 0, tokens), run_layer(alone, 0, tokens));
  EXPECT_TRUE(run_layer(experts, 0, model::routed_tokens{}).empty());
}

/// The worst ratio of layer 0 when the experts come from `source`.
double worst_ratio_with(const cli::expert_source& source) {
  cli::exchange_moe experts{config(), source, std::vector{0}, on_cpu(2)};
  return fixture_error(0, on_cpu(2), run_layer(experts, 0, checked_tokens(0))).worst.ratio;
}

TEST(exchange_moe, planted_an_expert_with_another_ones_weights_is_outside_the_bound) {
  EXPECT_GT(worst_ratio_with([](int layer, int first, int count) {
              model::expert_matrices right = tiny_moe().experts(layer, first, count);
              const model::expert_matrices other = tiny_moe().experts(layer, (first + 1) % 64, 1);
              std::copy(other.down.begin(), other.down.end(), right.down.begin());
              return right;
            }),
            1.0);
}

TEST(exchange_moe, planted_a_single_wrong_row_of_one_expert_is_outside_the_bound) {
  EXPECT_GT(worst_ratio_with([](int layer, int first, int count) {
              model::expert_matrices experts = tiny_moe().experts(layer, first, count);
              const auto intermediate = static_cast<std::size_t>(experts.intermediate);
              for (std::size_t i = 0; first == 0 && i < intermediate; ++i) {
                experts.down[i] = bfloat16{-static_cast<float>(experts.down[i])};
              }
              return experts;
            }),
            1.0);
}

TEST(exchange_moe, planted_gate_and_up_mixed_up_are_outside_the_bound) {
  EXPECT_GT(worst_ratio_with([](int layer, int first, int count) {
              model::expert_matrices experts = tiny_moe().experts(layer, first, count);
              std::swap(experts.gate, experts.up);
              return experts;
            }),
            1.0);
}

TEST(exchange_moe, planted_forgotten_router_weights_are_outside_the_bound) {
  model::routed_tokens tokens = checked_tokens(0);
  tokens.topk_weights.assign(tokens.topk_weights.size(), 0.125f);
  cli::exchange_moe experts{tiny_moe(), std::vector{0}, on_cpu(2)};
  EXPECT_GT(fixture_error(0, on_cpu(2), run_layer(experts, 0, tokens)).worst.ratio, 1.0);
}

TEST(exchange_moe, a_message_is_as_large_in_the_statistics_as_in_the_documented_workspace) {
  for (const token_format format : {token_format::bf16, token_format::blockwise_fp8}) {
    ep_config c;
    c.num_experts = 60;
    c.top_k = 8;
    c.hidden = 256;
    c.num_max_tokens_per_rank = 10;
    c.format = format;
    const std::uint64_t message = cli::exchange_statistics{c, 4, 1}.dispatch_message_bytes();
    EXPECT_EQ(workspace_bytes(c, 4).window, 60 * 10 * message + 10 * 8 * 256 * 2 + 16 * 60);
  }
}

TEST(exchange_moe, statistics_count_every_row_once_and_split_links_from_local_traffic) {
  const model::routed_tokens tokens = some_tokens(2, 64);
  cli::exchange_moe experts{tiny_moe(), std::vector{2}, on_cpu(3)};
  run_layer(experts, 2, tokens);
  const cli::exchange_statistics& s = experts.statistics();
  EXPECT_EQ(s.rows(), 64u * 8u);
  const auto of_ranks = s.rows_of_ranks();
  EXPECT_EQ(std::accumulate(of_ranks.begin(), of_ranks.end(), std::uint64_t{0}), s.rows());
  for (int e = 0; e < 64; ++e) {
    const auto expected = std::count(tokens.topk_idx.begin(), tokens.topk_idx.end(), e);
    EXPECT_EQ(s.rows_of_experts(2)[static_cast<std::size_t>(e)], static_cast<std::uint64_t>(expected));
    EXPECT_EQ(s.rows_of_experts(0)[static_cast<std::size_t>(e)], 0u);
  }
  EXPECT_EQ(s.wire_bytes() + s.local_bytes(),
            s.rows() * (s.dispatch_message_bytes() + s.combine_row_bytes()));
  EXPECT_GT(s.wire_bytes(), s.local_bytes()) << "two of three experts live elsewhere";
  EXPECT_EQ(s.combine_bytes(0, 1) / s.combine_row_bytes(),
            s.dispatch_bytes(1, 0) / s.dispatch_message_bytes());
  EXPECT_GT(s.seconds.total(), 0.0);
}

TEST(exchange_moe, bad_arguments_are_named) {
  const std::vector<int> layers{0};
  EXPECT_TRUE(says(message_of<invalid_argument>([&] {
                     cli::exchange_moe{tiny_moe(), layers, on_cpu(65)};
                   }),
                   "ranks", "65"));
  EXPECT_TRUE(says(message_of<invalid_argument>([&] {
                     cli::exchange_moe{tiny_moe(), std::vector{3}, on_cpu(1)};
                   }),
                   "3"));
  cli::exchange_moe experts{tiny_moe(), layers, on_cpu(2)};
  std::vector<std::vector<float>> outputs(2);
  std::vector<model::routed_tokens> ranks = in_blocks(some_tokens(0, 4), 2);
  EXPECT_TRUE(
      says(message_of<invalid_argument>([&] { experts.run(1, ranks, outputs); }), "layer 1", "not loaded"));
  EXPECT_TRUE(says(message_of<invalid_argument>([&] { experts.run(0, std::span{ranks}.first(1), outputs); }),
                   "1 ranks", "2 outputs"));
  ranks[1].topk_idx.pop_back();
  EXPECT_TRUE(says(message_of<invalid_argument>([&] { experts.run(0, ranks, outputs); }), "rank 1", "15 ids",
                   "expected"));
  ranks[1].topk_idx.push_back(64);
  EXPECT_TRUE(says(message_of<device_error>([&] { experts.run(0, ranks, outputs); }), "64"));
}

}  // namespace
}  // namespace baton::test
