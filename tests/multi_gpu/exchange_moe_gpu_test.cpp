// The model's layers and its text through the exchange on 1, 2 and 4 GPUs, and with ranks that share GPUs.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/generation.hpp"
#include "cli/model/byte_tokenizer.hpp"
#include "tests/support/command_lines.hpp"
#include "tests/support/fp8_texts.hpp"
#include "tests/support/fp8_tiny_moe.hpp"
#include "tests/support/gpu_count.hpp"
#include "tests/support/layer_cases.hpp"
#include "tests/support/library_attention_of.hpp"
#include "tests/support/parsed_json.hpp"

namespace baton::test {
namespace {

cli::exchange_options on_gpus(int num_ranks, token_format format = token_format::bf16,
                              ep_layout layout = ep_layout::per_expert) {
  cli::exchange_options options;
  options.layout = layout;
  options.num_ranks = num_ranks;
  options.device = device_kind::cuda;
  options.format = format;
  return options;
}

class exchange_moe_gpu : public testing::TestWithParam<int> {};

TEST_P(exchange_moe_gpu, bf16_outputs_of_all_layers_are_within_their_rounding_bound) {
  BATON_REQUIRE_GPUS(GetParam());
  check_layers(on_gpus(GetParam()));
}

TEST_P(exchange_moe_gpu, fp8_outputs_of_all_layers_are_within_their_rounding_bound) {
  BATON_REQUIRE_GPUS(GetParam());
  check_layers(on_gpus(GetParam(), token_format::blockwise_fp8));
}

TEST_P(exchange_moe_gpu, outputs_of_layout_per_rank_are_within_the_bound_of_rounded_partial_sums) {
  BATON_REQUIRE_GPUS(GetParam());
  for (const token_format format : {token_format::bf16, token_format::blockwise_fp8})
    check_layers(on_gpus(GetParam(), format, ep_layout::per_rank));
}

TEST_P(exchange_moe_gpu, experts_in_fp8_are_within_their_rounding_bound_in_every_format) {
  BATON_REQUIRE_GPUS(GetParam());
  for (const token_format format : {token_format::bf16, token_format::blockwise_fp8, token_format::mxfp8,
                                    token_format::mxfp4, token_format::nvfp4}) {
    cli::exchange_moe experts{fp8_tiny_moe(), std::vector{1}, on_gpus(GetParam(), format)};
    EXPECT_EQ(experts.weights_format(), weight_format::block_fp8);
    const auto rounding = cli::rounding_of(experts.config(), device_kind::cuda, {}, weight_format::block_fp8);
    const auto bounds = model::moe_error_bound(fp8_tiny_moe().experts(1, 0, 64), checked_tokens(1), rounding);
    EXPECT_LE(model::compare(bounds, run_layer(experts, 1, checked_tokens(1)), 256).ratio, 1.0)
        << name(format);
  }
}

TEST_P(exchange_moe_gpu, narrow_formats_are_within_their_rounding_bound) {
  BATON_REQUIRE_GPUS(GetParam());
  for (const token_format format : {token_format::mxfp8, token_format::mxfp4, token_format::nvfp4})
    check_layers(on_gpus(GetParam(), format));
}

TEST_P(exchange_moe_gpu, tokens_that_lie_once_do_not_change_a_bit) {
  BATON_REQUIRE_GPUS(GetParam());
  const model::routed_tokens tokens = fixture_tokens(1);
  for (const token_format format : {token_format::bf16, token_format::blockwise_fp8}) {
    cli::exchange_options options = on_gpus(GetParam(), format, ep_layout::per_rank);
    cli::exchange_moe by_expert{tiny_moe(), std::vector{1}, options};
    const std::vector<float> expected = run_layer(by_expert, 1, tokens);
    options.rows = ep_rows::by_token;
    for (const ep_transfer transfer : {ep_transfer::lines, ep_transfer::chunks, ep_transfer::flags}) {
      options.transfer = transfer;
      cli::exchange_moe by_token{tiny_moe(), std::vector{1}, options};
      EXPECT_EQ(run_layer(by_token, 1, tokens), expected);
    }
  }
}

/// The expected continuations, as generated with `options`, with attention on the GPUs, too.
void check_text(const cli::exchange_options& options) {
  const auto prompts = cli::read_expectations(tiny_moe_folder() / "greedy.json");
  cli::exchange_moe experts{tiny_moe(), all_layers(), options};
  model::qwen3_moe network{tiny_moe()};
  auto sequences = cli::spread(prompts, tiny_moe().config(), options.num_ranks, 0);
  cli::library_attention attention = library_attention_of(experts, sequences);
  network.attend_with(attention);
  cli::generate_greedily(network, experts, sequences, options.num_ranks, [](std::size_t) {});
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    EXPECT_EQ(model::decode_bytes(sequences[i].generated), prompts[i].expected) << "prompt " << i;
  }
}

/// With each way that messages arrive.
void check_texts(cli::exchange_options options) {
  check_text(options);
  options.arrival = arrival_policy::sentinel;
  check_text(options);
  options.layout = ep_layout::per_rank;
  check_text(options);
}

TEST_P(exchange_moe_gpu, greedy_text_equals_every_expected_continuation) {
  BATON_REQUIRE_GPUS(GetParam());
  check_texts(on_gpus(GetParam()));
}

// Tensor cores keep 13 bits of a sum of e4m3, so that near letters may change places.
TEST_P(exchange_moe_gpu, greedy_texts_of_weights_in_fp8_part_from_the_cpus_only_where_letters_are_near) {
  BATON_REQUIRE_GPUS(GetParam());
  cli::exchange_options on_the_cpu;
  on_the_cpu.num_ranks = 1;
  cli::exchange_moe experts{fp8_tiny_moe(), all_layers(), on_the_cpu};
  const std::vector<std::string> texts = fp8_continuations(on_gpus(GetParam()));
  expect_near_letters_where_texts_part(texts, "greedy-fp8.json", fp8_tiny_moe(), experts);
  EXPECT_EQ(fp8_continuations(on_gpus(GetParam(), token_format::blockwise_fp8)), texts)
      << "FP8 before they travel, or after";
}

INSTANTIATE_TEST_SUITE_P(gpus, exchange_moe_gpu, testing::Values(1, 2, 4));

TEST(exchange_moe_gpu, ranks_that_share_gpus_are_right_too) {
  BATON_REQUIRE_GPUS(1);
  const int ranks = std::min(8, 2 * num_gpus());
  check_layers(on_gpus(ranks));
  check_layers(on_gpus(ranks, token_format::blockwise_fp8));
  check_layers(on_gpus(ranks, token_format::bf16, ep_layout::per_rank));
  check_texts(on_gpus(ranks));
}

TEST(exchange_moe_gpu, many_rounds_for_one_batch_do_not_change_a_bit) {
  BATON_REQUIRE_GPUS(2);
  const model::routed_tokens tokens = fixture_tokens(1);
  cli::exchange_moe once{tiny_moe(), std::vector{1}, on_gpus(2)};
  cli::exchange_options small = on_gpus(2);
  small.max_tokens_per_rank = 37;
  cli::exchange_moe often{tiny_moe(), std::vector{1}, small};
  EXPECT_EQ(run_layer(often, 1, tokens), run_layer(once, 1, tokens));
}

TEST(exchange_moe_gpu, planted_an_expert_with_another_ones_weights_is_outside_the_bound) {
  BATON_REQUIRE_GPUS(1);
  const auto source = [](int layer, int first, int count) {
    model::expert_matrices experts = tiny_moe().experts(layer, first, count);
    const model::expert_matrices other = tiny_moe().experts(layer, (first + 1) % 64, 1);
    std::copy(other.down.begin(), other.down.end(), experts.down.begin());
    return experts;
  };
  cli::exchange_moe experts{tiny_moe().config(), source, std::vector{0}, on_gpus(1)};
  EXPECT_GT(fixture_error(0, on_gpus(1), run_layer(experts, 0, checked_tokens(0))).worst.ratio, 1.0);
}

TEST(exchange_moe_gpu, the_program_uses_gpus_on_its_own_and_the_text_is_expected) {
  BATON_REQUIRE_GPUS(2);
  const child_result run =
      run_program({"generate", "--model", model_folder, "--expect", greedy_file, "--ranks", "2", "--json"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const auto result = parsed_json(run.out);
  EXPECT_EQ(result["settings"]["device"], "cuda");
  EXPECT_EQ(result["as_expected"]["good"], 5);
}

}  // namespace
}  // namespace baton::test
