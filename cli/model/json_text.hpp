#pragma once
// JSON from files that nobody vouches for: read in one pass, in bounded memory, and never more lenient than RFC 8259.
#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace baton::model {

/// What a text may be at most. `values` bounds the tree, which takes some hundred bytes for each of them.
struct json_limits {
  std::size_t bytes = 1 << 20;
  int depth = 32;
  std::size_t values = 2'000'000;
};

/// @throws bad_file  more than the limits allow, not JSON, not UTF-8, anything behind the JSON, or a key twice in an
///                   object. Names `label`, line and byte, what was expected and what was found.
nlohmann::json parse_json(std::string_view text, const json_limits& limits, const std::string& label);

/// The same for an object whose members are handed over one by one, each as soon as it is complete, so that a long
/// one never stands in memory as a tree; `limits.values` holds for each member. A key that comes twice at this level
/// is the receiver's to refuse: it has the names.
using member_receiver = std::function<void(std::string&& key, nlohmann::json&& value)>;
void parse_members(std::string_view text, const json_limits& limits, const std::string& label,
                   const member_receiver& receive);

/// A text of each line, as benchmarks write them; empty ones are passed over. `where` names label and line.
using line_receiver = std::function<void(const nlohmann::json& value, const std::string& where)>;
void parse_json_lines(const std::string& text, const json_limits& limits, const std::string& label,
                      const line_receiver& receive);

/// For error texts: short whatever it is. "\"F31\"", "an array of 3 values", "an object with dtype, shape".
std::string shown(const nlohmann::json& value);

/// For error texts: a piece of a file, which may hold megabytes without a break.
std::string clipped(std::string_view text);

}  // namespace baton::model
