#include "cli/prompts.hpp"

#include <fmt/format.h>

#include <sstream>

#include "baton/error.hpp"
#include "cli/model/input_file.hpp"
#include "cli/model/json_text.hpp"

namespace baton::cli {
namespace {

using nlohmann::json;

constexpr std::size_t max_prompts_bytes = 16 << 20;
constexpr std::size_t max_prompts = 100'000;  // a sequence takes much more memory than its text

/// What the user named may be a pipe.
std::string read_prompts_text(const std::filesystem::path& file) {
  return model::read_text(file, max_prompts_bytes, model::file_kind::any);
}

json parse_array(const std::string& text, const std::filesystem::path& file) {
  json parsed = model::parse_json(text, {.bytes = max_prompts_bytes}, file.string());
  if (!parsed.is_array())
    throw bad_file{
        fmt::format("{}: expected a JSON array of prompts, found {}", file.string(), model::shown(parsed))};
  return parsed;
}

/// Member `key` of entry `index`, which must be a string.
std::string text_of(const json& entry, const char* key, std::size_t index,
                    const std::filesystem::path& file) {
  const auto at = entry.is_object() ? entry.find(key) : entry.end();
  if (at == entry.end() || !at->is_string()) {
    throw bad_file{
        fmt::format("{}: entry {}: expected an object with a string `{}`", file.string(), index, key)};
  }
  return at->get<std::string>();
}

std::vector<prompt> counted(std::vector<prompt> prompts, const std::filesystem::path& file) {
  if (prompts.empty()) throw bad_file{file.string() + ": no prompt in it, expected at least one"};
  if (prompts.size() > max_prompts)
    throw bad_file{
        fmt::format("{}: expected at most {} prompts, found {}", file.string(), max_prompts, prompts.size())};
  return prompts;
}

}  // namespace

std::vector<prompt> parse_prompts(const std::string& text, const std::filesystem::path& file) {
  std::vector<prompt> prompts;
  if (file.extension() == ".json") {
    const json entries = parse_array(text, file);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      prompts.push_back(
          {entries[i].is_string() ? entries[i].get<std::string>() : text_of(entries[i], "prompt", i, file),
           std::nullopt});
    }
    return counted(std::move(prompts), file);
  }
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) prompts.push_back({line, std::nullopt});
  }
  return counted(std::move(prompts), file);
}

std::vector<prompt> parse_expectations(const std::string& text, const std::filesystem::path& file) {
  const json entries = parse_array(text, file);
  std::vector<prompt> prompts;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    std::string expected = text_of(entries[i], "greedy_continuation", i, file);
    if (expected.empty())
      throw bad_file{fmt::format("{}: entry {}: `greedy_continuation` is empty", file.string(), i)};
    prompts.push_back({text_of(entries[i], "prompt", i, file), std::move(expected)});
  }
  return counted(std::move(prompts), file);
}

std::vector<prompt> read_prompts(const std::filesystem::path& file) {
  return parse_prompts(read_prompts_text(file), file);
}

std::vector<prompt> read_expectations(const std::filesystem::path& file) {
  return parse_expectations(read_prompts_text(file), file);
}

}  // namespace baton::cli
