#include "cli/model/json_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <sstream>
#include <vector>

#include "baton/error.hpp"

namespace baton::model {
namespace {

using nlohmann::json;

/// The text as nlohmann's parser wants it, and how far the parser has come, which it does not tell.
struct tracked {
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at = nullptr;
  const char** reached = nullptr;

  reference operator*() const { return *at; }
  tracked& operator++() {
    *reached = ++at;
    return *this;
  }
  tracked operator++(int) {
    const tracked before = *this;
    ++*this;
    return before;
  }
  bool operator==(const tracked& other) const { return at == other.at; }
};

/// nlohmann's words without its exception's number and place.
std::string_view reason(std::string_view what) {
  if (const auto at = what.find("] "); at != what.npos) what.remove_prefix(at + 2);
  if (const auto at = what.find(": "); what.starts_with("parse error at") && at != what.npos)
    what.remove_prefix(at + 2);
  return what;
}

/// Builds the tree from nlohmann's events. Its own builder takes a key twice, any depth, and time that grows with the
/// square of an object's members.
class tree_builder {
 public:
  tree_builder(std::string_view text, const json_limits& limits, const std::string& label)
      : text_{text}, limits_{limits}, label_{label}, reached_{text.data()} {}

  json build(const member_receiver& receive = {}) {
    receive_ = receive;
    if (text_.size() > limits_.bytes)
      refuse(fmt::format("at most {} bytes", limits_.bytes), fmt::format("{} bytes", text_.size()));
    if (const auto at = text_.find('\0'); at != text_.npos) {  // the parser would take it for the end
      reached_ = text_.data() + at;
      refuse("JSON", "a zero byte");
    }
    const char* const end = text_.data() + text_.size();
    json::sax_parse(tracked{text_.data(), &reached_}, tracked{end, &reached_}, this);
    return std::move(root_);
  }

  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(json::number_integer_t value) { return put(value); }
  bool number_unsigned(json::number_unsigned_t value) { return put(value); }
  bool number_float(json::number_float_t value, const std::string&) { return put(value); }
  bool string(std::string& value) { return put(std::move(value)); }
  bool binary(json::binary_t&) { return false; }  // not a part of JSON texts
  bool start_object(std::size_t) { return open(json::object()); }
  bool start_array(std::size_t) { return open(json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    if (hands_over()) {
      member_name_ = std::move(name);
      slot_ = &member_;
      return true;
    }
    const auto [at, is_new] = open_.back()->emplace(std::move(name), nullptr);
    if (!is_new) refuse("every key of an object once", fmt::format("{} twice", clipped(at.key())));
    slot_ = &*at;
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const json::exception& e) {
    refuse("JSON", clipped(reason(e.what())));
  }

 private:
  bool hands_over() const { return receive_ && open_.size() == 1; }

  json* place(json&& value) {
    if (++values_ > limits_.values) refuse(fmt::format("at most {} values", limits_.values), "more");
    if (open_.empty()) {
      if (receive_ && !value.is_object()) refuse("a JSON object", shown(value));
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      return &open_.back()->back();
    }
    *slot_ = std::move(value);
    return slot_;
  }

  bool put(json&& value) {
    place(std::move(value));
    return completed();
  }

  bool open(json&& empty) {
    if (open_.size() >= static_cast<std::size_t>(limits_.depth))
      refuse(fmt::format("nesting of at most {}", limits_.depth), "deeper nesting");
    open_.push_back(place(std::move(empty)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return completed();
  }

  /// A value has just been completed.
  bool completed() {
    if (!hands_over()) return true;
    receive_(std::move(member_name_), std::move(member_));
    values_ = 0;
    return true;
  }

  [[noreturn]] void refuse(const std::string& expected, const std::string& found) const {
    const auto byte = static_cast<std::size_t>(reached_ - text_.data());
    const auto line = 1 + std::count(text_.data(), reached_, '\n');
    throw bad_file{
        fmt::format("{}: line {}, byte {}: expected {}, found {}", label_, line, byte, expected, found)};
  }

  std::string_view text_;
  json_limits limits_;
  const std::string& label_;
  const char* reached_;
  member_receiver receive_;
  json root_, member_;
  std::string member_name_;
  std::vector<json*> open_;
  json* slot_ = nullptr;  // where the value of the last key goes
  std::size_t values_ = 0;
};

}  // namespace

json parse_json(std::string_view text, const json_limits& limits, const std::string& label) {
  return tree_builder{text, limits, label}.build();
}

void parse_members(std::string_view text, const json_limits& limits, const std::string& label,
                   const member_receiver& receive) {
  tree_builder{text, limits, label}.build(receive);
}

void parse_json_lines(const std::string& text, const json_limits& limits, const std::string& label,
                      const line_receiver& receive) {
  std::istringstream lines{text};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.empty()) continue;
    const std::string where = fmt::format("{}: line {}", label, number);
    receive(parse_json(line, limits, where), where);
  }
}

std::string clipped(std::string_view text) {
  constexpr std::size_t longest = 160;
  return text.size() <= longest ? std::string{text} : fmt::format("{}...", text.substr(0, longest));
}

std::string shown(const json& value) {
  if (value.is_array()) return fmt::format("an array of {} values", value.size());
  if (value.is_object()) {
    std::vector<std::string> names;
    for (auto at = value.begin(); at != value.end() && names.size() < 4; ++at)
      names.push_back(clipped(at.key()));
    if (names.empty()) return "an empty object";
    return fmt::format("an object with {}{}", fmt::join(names, ", "),
                       value.size() > names.size() ? ", ..." : "");
  }
  if (value.is_string()) return fmt::format("\"{}\"", clipped(value.get_ref<const std::string&>()));
  return value.dump();
}

}  // namespace baton::model
