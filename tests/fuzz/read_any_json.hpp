#pragma once
// What the fuzzers do with one text: read it as each JSON file of the program, and hold the reader to its word.
#include <cstdint>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/model/checkpoint.hpp"
#include "cli/model/json_text.hpp"
#include "cli/model/shards.hpp"
#include "cli/prompts.hpp"
#include "tests/fuzz/verdict.hpp"

namespace baton::test {

inline std::string text_of(std::span<const std::uint8_t> input) {
  return {input.begin(), input.end()};
}

/// Runs a reader; what it throws must be one of ours, and short.
template <class Read>
verdict verdict_of(Read read) {
  try {
    read();
    return verdict::accepted;
  } catch (const bad_file& e) {
    require_short(e.what());
  } catch (const unsupported& e) {
    require_short(e.what());
  }
  return verdict::refused;
}

/// Keys that come twice in one object, as nlohmann's parser passes over them.
inline bool has_a_key_twice(const std::string& text) {
  std::vector<std::set<std::string>> open;
  bool twice = false;
  using what = nlohmann::json::parse_event_t;
  const auto look = [&](int, what event, nlohmann::json& parsed) {
    if (event == what::object_start) open.emplace_back();
    if (event == what::object_end) open.pop_back();
    if (event == what::key) twice = !open.back().insert(parsed.get<std::string>()).second || twice;
    return true;
  };
  const auto ignored = nlohmann::json::parse(text, look, false);
  static_cast<void>(ignored);
  return twice;
}

/// Accepts what nlohmann's parser accepts, with the same value, and no key twice.
inline verdict read_any_json(std::span<const std::uint8_t> input) {
  const std::string text = text_of(input);
  return verdict_of([&] {
    const nlohmann::json read = model::parse_json(text, {}, "fuzz");
    if (read != nlohmann::json::parse(text, nullptr, false)) throw std::logic_error{"another value: " + text};
    if (has_a_key_twice(text)) throw std::logic_error{"accepted with a key twice: " + text};
  });
}

inline verdict read_any_config(std::span<const std::uint8_t> input) {
  return verdict_of([&] {
    const model::model_config c = model::parse_config(text_of(input), "fuzz");
    const bool is_sound = c.hidden_size > 0 && c.vocab_size > 0 && c.num_key_value_heads > 0 &&
                          c.head_dim % 2 == 0 && c.num_attention_heads % c.num_key_value_heads == 0 &&
                          c.num_experts_per_tok <= c.num_experts && c.rope_theta > 0 && c.rms_norm_eps > 0;
    if (!is_sound) throw std::logic_error{"accepted, though it contradicts itself: " + text_of(input)};
  });
}

inline verdict read_any_index(std::span<const std::uint8_t> input) {
  return verdict_of([&] {
    for (const auto& [tensor, file] : model::parse_index(text_of(input), "fuzz"))
      if (file.empty() || file.find('/') != file.npos) throw std::logic_error{"accepted a path: " + file};
  });
}

inline verdict read_any_prompts(std::span<const std::uint8_t> input) {
  return verdict_of([&] { cli::parse_prompts(text_of(input), "fuzz.json"); });
}

inline verdict read_any_expectations(std::span<const std::uint8_t> input) {
  return verdict_of([&] {
    for (const cli::prompt& p : cli::parse_expectations(text_of(input), "fuzz"))
      if (!p.expected || p.expected->empty()) throw std::logic_error{"accepted, though nothing is expected"};
  });
}

}  // namespace baton::test
