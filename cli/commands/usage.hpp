#pragma once
// What is wrong with a command line, and which words were probably meant.
#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace baton::cli {

/// The one that `word` may be a slip of: it begins with `word`, or two letters or a third of them have to
/// change at most. Empty if there is none.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

/// The innermost command that was named.
const CLI::App& chosen_command(const CLI::App& app);

/// "no option --promt; did you mean --prompt?": words that nobody knows come before what `error` says is missing.
std::string usage_problem(const CLI::App& app, const CLI::ParseError& error);

}  // namespace baton::cli
