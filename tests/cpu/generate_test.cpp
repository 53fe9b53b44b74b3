// Greedy decoding over ranks: how prompts are read and spread.
#include <gtest/gtest.h>

#include <limits>

#include "cli/exchange_moe.hpp"
#include "cli/generation.hpp"
#include "cli/model/byte_tokenizer.hpp"
#include "cli/prompts.hpp"
#include "tests/cpu/says.hpp"
#include "tests/cpu/temporary_folder.hpp"
#include "tests/cpu/tiny_moe.hpp"

namespace baton::test {
namespace {

using cli::prompt;

TEST(generate, tells_of_every_token_in_order) {
  cli::exchange_moe experts{tiny_moe(), std::vector{0, 1, 2}, {}};
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
