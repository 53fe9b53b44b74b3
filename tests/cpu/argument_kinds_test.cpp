// Words of the command line that are numbers, before a number's type has taken them for another one.
#include "cli/commands/argument_kinds.hpp"

#include <gtest/gtest.h>

#include "cli/commands/arguments.hpp"

namespace baton::cli {
namespace {

/// What parsing says of a seed; empty: it was taken.
std::string said_of_seed(const std::vector<std::string>& command, const std::string& word) {
  CLI::App app;
  arguments chosen;
  declare(app, chosen);
  std::vector<std::string> words{word, "--seed"};  // last first, as CLI11 wants them
  words.insert(words.end(), command.rbegin(), command.rend());
  try {
    app.parse(words);
  } catch (const CLI::ParseError& e) {
    return e.what();
  }
  return {};
}

TEST(argument_kinds, a_seed_that_is_none_is_refused_by_every_command_that_has_one) {
  for (const std::vector<std::string>& command : {std::vector<std::string>{"forecast"},
                                                  {"check"},
                                                  {"bench", "ep"},
                                                  {"bench", "groups"},
                                                  {"bench", "moe"}}) {
    SCOPED_TRACE(command.back());
    for (const char* word : {"-1", "18446744073709551616", "1.5", "seven", "0x10"})
      EXPECT_EQ(said_of_seed(command, word),
                std::string{"--seed: '"} + word + "' is not a whole number from 0 to 18446744073709551615");
    EXPECT_EQ(said_of_seed(command, "010"),
              "--seed: '010' is not a whole number from 0 to 18446744073709551615 without zeros in front");
  }
}

TEST(argument_kinds, every_seed_of_64_bits_is_taken_as_it_is) {
  CLI::App app;
  std::uint64_t seed = 1;
  add_seed(app, seed, "of this test");
  app.parse("--seed 18446744073709551615");
  EXPECT_EQ(seed, ~std::uint64_t{0});
  app.parse("--seed 0");
  EXPECT_EQ(seed, 0u);
}

}  // namespace
}  // namespace baton::cli
