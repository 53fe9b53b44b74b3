#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace baton::cli {

/// What to continue, and the continuation that is expected, if one is.
struct prompt {
  std::string text;
  std::optional<std::string> expected;
};

/// A JSON array of strings, or of objects with `prompt`; any other text: one prompt a line, empty lines
/// skipped. At most 16 MiB and 100,000 prompts.
/// @throws bad_file  unreadable or too large, no prompt in it, or an entry of another kind (which)
std::vector<prompt> read_prompts(const std::filesystem::path& file);

/// A JSON array of objects with `prompt` and `greedy_continuation`.
std::vector<prompt> read_expectations(const std::filesystem::path& file);

/// The same from a text; `file` stands for it in error texts and says by its ending what it is.
std::vector<prompt> parse_prompts(const std::string& text, const std::filesystem::path& file);
std::vector<prompt> parse_expectations(const std::string& text, const std::filesystem::path& file);

}  // namespace baton::cli
