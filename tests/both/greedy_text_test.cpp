// Greedy decoding over ranks: the expected texts.
#include <gtest/gtest.h>

#include <optional>

#include "cli/exchange_moe.hpp"
#include "cli/generation.hpp"
#include "cli/model/byte_tokenizer.hpp"
#include "cli/prompts.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/exchange_processes.hpp"
#include "tests/support/layer_cases.hpp"
#include "tests/support/library_attention_of.hpp"
#include "tests/support/texts_of_ranks.hpp"

namespace baton::test {
namespace {

using cli::prompt;

std::vector<prompt> greedy() {
  return cli::read_expectations(tiny_moe_folder() / "greedy.json");
}

/// Continuations of `prompts` over `num_ranks` ranks of the CPU.
std::vector<std::string> continuations(const std::vector<prompt>& prompts,
                                       const cli::exchange_options& options, bool by_library = false) {
  cli::exchange_moe experts{tiny_moe(), all_layers(), options};
  model::qwen3_moe network{tiny_moe()};
  std::vector<cli::sequence> sequences = cli::spread(prompts, tiny_moe().config(), options.num_ranks, 0);
  std::optional<cli::library_attention> attention;
  if (by_library) network.attend_with(attention.emplace(library_attention_of(experts, sequences)));
  cli::generate_greedily(network, experts, sequences, options.num_ranks, [](std::size_t) {});
  std::vector<std::string> texts;
  for (const cli::sequence& s : sequences) texts.push_back(model::decode_bytes(s.generated));
  return texts;
}

class greedy_text : public testing::TestWithParam<int> {};

TEST_P(greedy_text, equals_every_expected_continuation_with_layout_per_expert) {
  cli::exchange_options options;
  options.num_ranks = GetParam();
  options.layout = ep_layout::per_expert;
  options.arrival = GetParam() % 2 == 0 ? arrival_policy::epoch : arrival_policy::sentinel;
  const std::vector<prompt> prompts = greedy();
  const std::vector<std::string> found = continuations(prompts, options);
  for (std::size_t i = 0; i < prompts.size(); ++i) EXPECT_EQ(found[i], prompts[i].expected) << "prompt " << i;
}

TEST_P(greedy_text, equals_every_expected_continuation_by_default) {
  cli::exchange_options options;
  options.num_ranks = GetParam();
  EXPECT_EQ(options.layout, ep_config{}.layout);
  const std::vector<prompt> prompts = greedy();
  const std::vector<std::string> found = continuations(prompts, options);
  for (std::size_t i = 0; i < prompts.size(); ++i) EXPECT_EQ(found[i], prompts[i].expected) << "prompt " << i;
}

TEST_P(greedy_text, equals_every_expected_continuation_with_attention_by_the_library) {
  cli::exchange_options options;
  options.num_ranks = GetParam();
  const std::vector<prompt> prompts = greedy();
  const std::vector<std::string> found = continuations(prompts, options, true);
  for (std::size_t i = 0; i < prompts.size(); ++i) EXPECT_EQ(found[i], prompts[i].expected) << "prompt " << i;
}

INSTANTIATE_TEST_SUITE_P(cpu, greedy_text, testing::Values(1, 2, 3, 4, 8));

TEST(greedy_text, is_the_same_with_either_layout_and_fp8) {
  const std::vector<prompt> prompts = greedy();
  cli::exchange_options options;
  options.num_ranks = 4;
  options.format = token_format::blockwise_fp8;
  options.layout = ep_layout::per_expert;
  const std::vector<std::string> per_expert = continuations(prompts, options);
  options.layout = ep_layout::per_rank;
  for (const ep_transfer transfer : {ep_transfer::lines, ep_transfer::chunks, ep_transfer::flags}) {
    options.transfer = transfer;
    EXPECT_EQ(continuations(prompts, options), per_expert);
  }
}

TEST(greedy_text, equals_every_expected_continuation_in_p2p_groups_of_one) {
  const std::vector<prompt> prompts = greedy();
  for (const int ranks : {2, 4})
    for (cli::exchange_options options : ways_of_texts(1)) {
      options.num_ranks = ranks;
      const std::vector<std::string> found = continuations(prompts, options);
      for (std::size_t i = 0; i < prompts.size(); ++i)
        EXPECT_EQ(found[i], prompts[i].expected) << ranks << " ranks, prompt " << i;
    }
}

TEST(greedy_text, equals_every_expected_continuation_with_replicas_in_either_layout) {
  const std::vector<prompt> prompts = greedy();
  for (const ep_layout layout : {ep_layout::per_expert, ep_layout::per_rank}) {
    cli::exchange_options options;
    options.num_ranks = 3;
    options.layout = layout;
    options.num_replicas = 20;  // with uneven loads and ranks of 28 experts
    for (int l = 0; l < 3; ++l) {
      options.past_loads.emplace_back();
      for (int e = 0; e < 64; ++e) options.past_loads.back().push_back(e * (l + 1) % 7);
    }
    const std::vector<std::string> found = continuations(prompts, options);
    for (std::size_t i = 0; i < prompts.size(); ++i)
      EXPECT_EQ(found[i], prompts[i].expected) << "prompt " << i;
  }
}

TEST(greedy_text, is_the_same_with_either_arrival_policy) {
  cli::exchange_options options;
  options.num_ranks = 4;
  options.layout = ep_layout::per_expert;
  const std::vector<prompt> prompts{greedy()[0]};
  for (const arrival_policy arrival : {arrival_policy::epoch, arrival_policy::sentinel}) {
    options.arrival = arrival;
    EXPECT_EQ(continuations(prompts, options)[0], prompts[0].expected);
  }
}

TEST(greedy_text, stays_the_same_when_a_step_takes_many_rounds) {
  cli::exchange_options options;
  options.num_ranks = 2;
  options.max_tokens_per_rank = 7;
  const std::vector<prompt> prompts = greedy();
  EXPECT_EQ(continuations({prompts[0]}, options)[0], prompts[0].expected);
}

TEST(greedy_text, of_each_rank_equals_the_expected_continuation_in_processes_in_groups_of_two) {
  expect_of_processes(4, device_kind::cpu, [](const world& w) {
    for (const cli::exchange_options& options : ways_of_texts(2)) expect_texts_of_rank(w, options);
    return true;
  });
}

TEST(greedy_text, of_a_rank_alone_in_its_process_is_of_one_round_a_step) {
  expect_of_processes(2, device_kind::cpu, [](const world& w) {
    cli::exchange_options options;
    options.num_ranks = 2;
    options.max_tokens_per_rank = 3;
    cli::exchange_moe experts{tiny_moe(), std::vector{0}, options, w};
    const std::vector<model::routed_tokens> own{in_blocks(fixture_tokens(0), 64)[0]};
    std::vector<std::vector<float>> out(1);
    return says(message_of<invalid_argument>([&] { experts.run(0, own, out); }), "expected one round of 3");
  });
}

}  // namespace
}  // namespace baton::test
