#pragma once
// JSON of a text, whatever holds it: the library's parser is a template of that, and takes a compiler long.
#include <nlohmann/json.hpp>
#include <string_view>

namespace baton::test {

inline nlohmann::json parsed_json(std::string_view text) {
  return nlohmann::json::parse(text.data(), text.data() + text.size());
}

}  // namespace baton::test
