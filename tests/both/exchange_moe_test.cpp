// The exchange as a backend of the model: values, bits, planted bugs, statistics and bad arguments.
#include "cli/exchange_moe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "tests/cpu/says.hpp"
#include "tests/support/layer_cases.hpp"

namespace baton::test {
namespace {

cli::exchange_options on_cpu(int num_ranks, token_format format = token_format::bf16,
                             ep_layout layout = ep_layout::per_expert) {
  cli::exchange_options options;
  options.num_ranks = num_ranks;
  options.format = format;
  options.layout = layout;
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

/// On each number of ranks; in one test, as they have the same bounds, which take most of the time.
void check_layers_on_ranks(token_format format) {
  for (const int num_ranks : numbers_of_ranks) {
    SCOPED_TRACE(std::to_string(num_ranks) + " ranks");
    check_layers(on_cpu(num_ranks, format));
  }
}

TEST(exchange_layers, bf16_outputs_of_all_layers_are_within_their_rounding_bound_on_1_to_8_ranks) {
  check_layers_on_ranks(token_format::bf16);
}

TEST(exchange_layers, fp8_outputs_of_all_layers_are_within_their_rounding_bound_on_1_to_8_ranks) {
  check_layers_on_ranks(token_format::blockwise_fp8);
}

TEST(exchange_narrow_formats, nvfp4_outputs_of_all_layers_are_within_their_rounding_bound) {
  check_layers(on_cpu(2, token_format::nvfp4));
}

class exchange_layers_per_rank : public testing::TestWithParam<std::tuple<int, token_format>> {};

TEST_P(exchange_layers_per_rank, outputs_of_all_layers_are_within_the_bound_of_rounded_partial_sums) {
  const auto [num_ranks, format] = GetParam();
  check_layers(on_cpu(num_ranks, format, ep_layout::per_rank));
}

INSTANTIATE_TEST_SUITE_P(cpu, exchange_layers_per_rank,
                         testing::Values(std::tuple{3, token_format::bf16},
                                         std::tuple{8, token_format::blockwise_fp8}));

TEST(exchange_moe, outputs_are_within_the_bound_of_sums_that_travel_back_in_fp8) {
  for (const token_format format : {token_format::bf16, token_format::blockwise_fp8}) {
    cli::exchange_options options = on_cpu(3, format, ep_layout::per_rank);
    options.combine_format = token_format::blockwise_fp8;
    check_layers(options);
  }
}

TEST(exchange_moe, many_rounds_with_layout_per_rank_do_not_change_a_bit) {
  const model::routed_tokens tokens = some_tokens(1, 64);
  cli::exchange_options options = on_cpu(5, token_format::bf16, ep_layout::per_rank);
  cli::exchange_moe once{tiny_moe(), std::vector{1}, options};
  options.max_tokens_per_rank = 3;
  cli::exchange_moe often{tiny_moe(), std::vector{1}, options};
  EXPECT_EQ(run_layer(often, 1, tokens), run_layer(once, 1, tokens));
  EXPECT_EQ(often.statistics().rounds, 5u);
}

TEST(exchange_moe, tokens_that_lie_once_do_not_change_a_bit) {
  const model::routed_tokens tokens = some_tokens(1, 16);
  for (const token_format format : {token_format::bf16, token_format::blockwise_fp8}) {
    cli::exchange_options options = on_cpu(3, format, ep_layout::per_rank);
    cli::exchange_moe by_expert{tiny_moe(), std::vector{1}, options};
    const std::vector<float> expected = run_layer(by_expert, 1, tokens);
    options.rows = ep_rows::by_token;
    for (const ep_transfer transfer : {ep_transfer::lines, ep_transfer::chunks, ep_transfer::flags}) {
      options.transfer = transfer;
      cli::exchange_moe by_token{tiny_moe(), std::vector{1}, options};
      EXPECT_EQ(run_layer(by_token, 1, tokens), expected);
      EXPECT_EQ(run_layer(by_token, 1, tokens), expected)
          << "the round that uses the other half of the window";
    }
  }
}

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

/// Rows that experts of the layer get from all fixtures, by which replicas are placed.
std::vector<std::vector<std::int64_t>> fixture_loads() {
  std::vector<std::vector<std::int64_t>> loads(3, std::vector<std::int64_t>(64, 0));
  for (int layer = 0; layer < 3; ++layer)
    for (const std::int32_t id : fixture_tokens(layer).topk_idx)
      ++loads[static_cast<std::size_t>(layer)][static_cast<std::size_t>(id)];
  return loads;
}

std::uint64_t most_rows(const cli::exchange_moe& experts) {
  const std::vector<std::uint64_t> rows = experts.statistics().rows_of_ranks();
  return *std::max_element(rows.begin(), rows.end());
}

TEST(exchange_moe, replicas_do_not_change_a_bit_with_layout_per_expert_and_even_out_what_ranks_do) {
  const model::routed_tokens tokens = some_tokens(1, 256);
  cli::exchange_options options = on_cpu(4);
  options.max_tokens_per_rank = 20;  // rounds in which tokens are numbered anew
  cli::exchange_moe plain{tiny_moe(), std::vector{1}, options};
  const std::vector<float> expected = run_layer(plain, 1, tokens);
  options.num_replicas = 16;
  options.past_loads = fixture_loads();
  cli::exchange_moe replicated{tiny_moe(), std::vector{1}, options};
  EXPECT_EQ(run_layer(replicated, 1, tokens), expected);
  EXPECT_EQ(replicated.statistics().rows(), plain.statistics().rows());
  EXPECT_EQ(replicated.statistics().rows_of_experts().size(), 80u);
  EXPECT_LT(most_rows(replicated), most_rows(plain));
  const auto mean = static_cast<double>(plain.statistics().rows()) / 4;
  EXPECT_LT(static_cast<double>(most_rows(replicated)), 1.15 * mean);
  EXPECT_EQ(replicated.placement(0), nullptr) << "a layer that was not loaded";
}

TEST(exchange_moe, planted_a_replica_with_another_ones_weights_changes_the_output) {
  const model::routed_tokens tokens = some_tokens(0, 64);
  cli::exchange_options options = on_cpu(2);
  options.num_replicas = 8;
  options.past_loads = fixture_loads();
  std::vector<int> asked(64, 0);
  const auto source = [&asked](bool wrong) {
    asked.assign(64, 0);
    return [&asked, wrong](int layer, int first, int count) {
      const bool again = asked[static_cast<std::size_t>(first)]++ > 0;
      return tiny_moe().experts(layer, wrong && again ? (first + 1) % 64 : first, count);
    };
  };
  cli::exchange_moe right{config(), source(false), std::vector{0}, options};
  const std::vector<float> expected = run_layer(right, 0, tokens);
  cli::exchange_moe wrong{config(), source(true), std::vector{0}, options};
  EXPECT_NE(run_layer(wrong, 0, tokens), expected);
}

TEST(exchange_moe, ranks_without_tokens_and_a_step_without_any_are_fine) {
  cli::exchange_moe experts{tiny_moe(), std::vector{0}, on_cpu(4)};
  const model::routed_tokens tokens = some_tokens(0, 2);
  cli::exchange_moe alone{tiny_moe(), std::vector{0}, on_cpu(1)};
  EXPECT_EQ(run_layer(experts, 0, tokens), run_layer(alone, 0, tokens));
  EXPECT_TRUE(run_layer(experts, 0, model::routed_tokens{}).empty());
}

/// The worst ratio of layer 0 when the experts come from `source`.
double worst_ratio_with(const cli::expert_source& source, ep_layout layout = ep_layout::per_expert) {
  const cli::exchange_options options = on_cpu(2, token_format::bf16, layout);
  cli::exchange_moe experts{config(), source, std::vector{0}, options};
  return fixture_error(0, options, run_layer(experts, 0, checked_tokens(0))).worst.ratio;
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
  for (const ep_layout layout : {ep_layout::per_expert, ep_layout::per_rank}) {
    const cli::exchange_options options = on_cpu(2, token_format::bf16, layout);
    cli::exchange_moe experts{tiny_moe(), std::vector{0}, options};
    EXPECT_GT(fixture_error(0, options, run_layer(experts, 0, tokens)).worst.ratio, 1.0);
  }
}

TEST(exchange_moe, planted_a_single_wrong_row_of_one_expert_is_outside_the_bound_of_per_rank_too) {
  const auto source = [](int layer, int first, int count) {
    model::expert_matrices experts = tiny_moe().experts(layer, first, count);
    const auto intermediate = static_cast<std::size_t>(experts.intermediate);
    for (std::size_t i = 0; first == 0 && i < intermediate; ++i)
      experts.down[i] = bfloat16{-static_cast<float>(experts.down[i])};
    return experts;
  };
  EXPECT_GT(worst_ratio_with(source, ep_layout::per_rank), 1.0);
}

TEST(exchange_moe, messages_of_per_rank_are_as_large_in_the_statistics_as_in_the_documented_workspace) {
  for (const token_format format : {token_format::bf16, token_format::blockwise_fp8}) {
    for (const auto& [hidden, top_k] : {std::pair{256, 8}, {7168, 1}, {384, 32}}) {
      ep_config c;
      c.num_experts = 60;
      c.top_k = top_k;
      c.hidden = hidden;
      c.num_max_tokens_per_rank = 10;
      c.format = format;
      c.layout = ep_layout::per_rank;
      cli::ep_traffic moved{c, 4};
      const std::vector<std::int32_t> one_expert(static_cast<std::size_t>(10 * top_k), 59);
      moved.count(0, one_expert);
      EXPECT_EQ(moved.messages_between(0, 3), 10u) << "a token that lists an expert often is sent once";
      // Two rounds' tokens and ids and one round's sums, of each of the four ranks, and words in which members meet.
      EXPECT_EQ(workspace_bytes(c, 4).window,
                4 * (2 * moved.dispatch_bytes(0, 3) + moved.combine_bytes(3, 0)) + 128);
    }
  }
}

TEST(exchange_moe, with_layout_per_rank_a_token_goes_to_a_rank_once) {
  const model::routed_tokens tokens = some_tokens(2, 64);
  cli::exchange_moe experts{tiny_moe(), std::vector{2}, on_cpu(2, token_format::bf16, ep_layout::per_rank)};
  run_layer(experts, 2, tokens);
  const cli::ep_traffic& moved = experts.statistics().traffic();
  EXPECT_EQ(experts.statistics().rows(), 64u * 8u);
  for (int from = 0; from < 2; ++from)
    for (int to = 0; to < 2; ++to) {
      std::uint64_t expected = 0;
      for (int t = 32 * from; t < 32 * from + 32; ++t) {
        const auto ids = std::span{tokens.topk_idx}.subspan(static_cast<std::size_t>(8 * t), 8);
        expected += std::any_of(ids.begin(), ids.end(), [&](int id) { return id / 32 == to; });
      }
      EXPECT_EQ(moved.messages_between(from, to), expected);
    }
}

TEST(exchange_moe, a_message_is_as_large_in_the_statistics_as_in_the_documented_workspace) {
  for (const token_format format : {token_format::bf16, token_format::blockwise_fp8}) {
    ep_config c;
    c.num_experts = 60;
    c.top_k = 8;
    c.hidden = 256;
    c.num_max_tokens_per_rank = 10;
    c.format = format;
    c.layout = ep_layout::per_expert;
    const std::uint64_t message = cli::ep_traffic{c, 4}.message_bytes();
    const std::uint64_t slot = 60 * 10 * message + 10 * 8 * 256 * 2 + 16 * 60;
    EXPECT_EQ(workspace_bytes(c, 4).window, (slot + 255) / 256 * 256 + 128);
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
  const cli::ep_traffic& moved = s.traffic();
  EXPECT_EQ(s.wire_bytes() + s.local_bytes(), s.rows() * (moved.message_bytes() + moved.reply_bytes()));
  EXPECT_GT(s.wire_bytes(), s.local_bytes()) << "two of three experts live elsewhere";
  EXPECT_EQ(moved.combine_bytes(0, 1) / moved.reply_bytes(),
            moved.dispatch_bytes(1, 0) / moved.message_bytes());
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
