// Greedy decoding over ranks: the expected texts, and how prompts are read and spread.
#include <gtest/gtest.h>

#include <limits>
#include <optional>

#include "cli/exchange_moe.hpp"
#include "cli/generation.hpp"
#include "cli/model/byte_tokenizer.hpp"
#include "cli/prompts.hpp"
#include "tests/cpu/says.hpp"
#include "tests/cpu/temporary_folder.hpp"
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

TEST(generate, tells_of_every_token_in_order) {
  cli::exchange_moe experts{tiny_moe(), all_layers(), {}};
  model::qwen3_moe network{tiny_moe()};
  std::vector<cli::sequence> sequences = cli::spread({{"a", {}}, {"bc", {}}}, tiny_moe().config(), 1, 3);
  std::vector<std::size_t> told;
  const cli::generation_times times =
      cli::generate_greedily(network, experts, sequences, 1, [&](std::size_t i) { told.push_back(i); });
  EXPECT_EQ(told, (std::vector<std::size_t>{0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(times.prompt_tokens, 3);
  EXPECT_EQ(times.new_tokens, 6);
}

TEST(generate, prompts_go_to_ranks_in_turn_with_the_length_that_is_expected_of_them) {
  const std::vector<prompt> prompts{{"a", {}}, {"bcd", "xyz"}, {"e", {}}};
  const auto sequences = cli::spread(prompts, tiny_moe().config(), 2, 0);
  EXPECT_EQ(sequences[0].rank, 0);
  EXPECT_EQ(sequences[1].rank, 1);
  EXPECT_EQ(sequences[2].rank, 0);
  EXPECT_EQ(sequences[0].max_new, 64);
  EXPECT_EQ(sequences[1].max_new, 3);
  EXPECT_EQ(cli::spread(prompts, tiny_moe().config(), 2, 2)[1].max_new, 2);
  EXPECT_EQ(cli::spread(prompts, tiny_moe().config(), 2, 9)[1].max_new, 3);
  EXPECT_EQ(cli::most_tokens_of_a_rank(sequences, 2), 3);
  EXPECT_EQ(cli::most_tokens_of_a_rank(sequences, 8), 3);
}

TEST(generate, what_does_not_fit_memory_is_refused_before_anything_is_computed) {
  model::model_config large = tiny_moe().config();
  large.max_position_embeddings = std::numeric_limits<int>::max();
  const auto needed = [&](const std::vector<prompt>& prompts, int max_new) {
    return cli::bytes_of(cli::spread(prompts, large, 1, max_new), large);
  };
  const std::size_t key_and_value = 2 * 4 * 128 * 3, hidden = 256;
  EXPECT_GE(needed({{"abc", {}}}, 2), 4 * key_and_value + 3 * hidden * 4);
  EXPECT_LT(needed({{"abc", {}}}, 2), 2 * (4 * key_and_value + 3 * hidden * 4));
  const std::vector<prompt> many(10'000, {"a", {}});
  EXPECT_GT(needed(many, std::numeric_limits<int>::max()), std::size_t{1} << 55);
}

TEST(generate, positions_past_the_models_are_refused_up_front) {
  const auto spread = [](std::size_t length, int max_new) {
    return message_of<invalid_argument>([&] {
      cli::spread({{std::string(length, 'a'), {}}}, tiny_moe().config(), 1, max_new);
    });
  };
  EXPECT_EQ(spread(1024, 1), "nothing was thrown");
  EXPECT_TRUE(says(spread(1024, 2), "prompt 0", "1024 tokens", "1025 positions", "max_position_embeddings"));
  EXPECT_TRUE(says(spread(1025, 1), "1025 tokens"));
  EXPECT_TRUE(says(spread(0, 1), "prompt 0 is empty"));
  EXPECT_TRUE(says(spread(1, -1), "--max-new -1"));
}

TEST(prompts, are_read_from_lines_and_from_json) {
  const temporary_folder folder;
  write_file(folder / "lines.txt", "one\n\ntwo words\n");
  const auto lines = cli::read_prompts(folder / "lines.txt");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1].text, "two words");
  write_file(folder / "both.json", R"(["one", {"prompt": "two\nlines", "greedy_continuation": "x"}])");
  const auto both = cli::read_prompts(folder / "both.json");
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[1].text, "two\nlines");
  EXPECT_FALSE(both[1].expected);
}

TEST(prompts, bad_files_are_named) {
  const temporary_folder folder;
  const auto reading = [&](const std::string& name, const std::string& text) {
    write_file(folder / name, text);
    return message_of<bad_file>([&] { cli::read_prompts(folder / name); });
  };
  EXPECT_TRUE(says(reading("a.txt", "\n\n"), "a.txt", "no prompt"));
  EXPECT_TRUE(says(reading("a.json", "{"), "a.json", "expected JSON"));
  EXPECT_TRUE(says(reading("b.json", "[1]"), "entry 0", "prompt"));
  std::string many;
  for (int i = 0; i <= 100'000; ++i) many += "a\n";
  EXPECT_TRUE(says(reading("many.txt", many), "at most 100000 prompts, found 100001"));
  EXPECT_TRUE(
      says(message_of<bad_file>([&] { cli::read_prompts(folder / "absent"); }), "absent", "No such file"));
  EXPECT_TRUE(says(message_of<bad_file>([&] { cli::read_prompts(folder.path()); }), "directory"));
  write_file(folder / "e.json", R"([{"prompt": "a"}])");
  EXPECT_TRUE(
      says(message_of<bad_file>([&] { cli::read_expectations(folder / "e.json"); }), "greedy_continuation"));
}

}  // namespace
}  // namespace baton::test
