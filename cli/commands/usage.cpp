#include "cli/commands/usage.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace baton::cli {
namespace {

/// Letters to insert, delete or replace.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

std::vector<std::string> options_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> commands_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* sub : command.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(sub->get_name());
  return names;
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  std::size_t least = 1 + (word.size() < 4 ? 1 : std::max<std::size_t>(2, word.size() / 3));
  if (word.size() > 64) return best;  // nobody's slip
  for (const std::string& candidate : known) {
    const bool begins = candidate.starts_with(word);
    const std::size_t off = begins ? 0 : distance(word, candidate);
    if (off < least) {
      least = off;
      best = candidate;
    }
  }
  return best;
}

const CLI::App& chosen_command(const CLI::App& app) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  return *at;
}

std::string usage_problem(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> unknown = app.remaining(true);
  const CLI::App& command = chosen_command(app);
  const bool lacks_command = command.get_require_subcommand_min() > 0 && command.get_subcommands().empty();
  if (unknown.empty() && lacks_command)
    return fmt::format("{} needs a command: {}", command.get_name(), fmt::join(commands_of(command), ", "));
  if (unknown.empty()) return error.what();
  const std::string word = unknown.front().substr(0, unknown.front().find('='));
  const bool is_option = word.starts_with('-');
  const std::vector<std::string> commands = commands_of(command);
  const std::string guess = nearest(word, is_option ? options_of(command) : commands);
  const std::string what = is_option          ? "no option "
                           : commands.empty() ? "an argument too many: "
                                              : "no command named ";
  return what + word + (guess.empty() ? "" : "; did you mean " + guess + "?");
}

}  // namespace baton::cli
