#include "cli/model/json_text.hpp"

#include <gtest/gtest.h>

#include "baton/error.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/parsed_json.hpp"

namespace {

using namespace baton;
using namespace baton::model;
using baton::test::message_of;
using baton::test::says;
using nlohmann::json;

std::string refusal(const std::string& text, const json_limits& limits = {}) {
  return message_of<bad_file>([&] { parse_json(text, limits, "f.json"); });
}

std::string nested(int depth) {
  const auto n = static_cast<std::size_t>(depth);
  return std::string(n, '[') + std::string(n, ']');
}

TEST(json_text, a_text_within_the_limits_is_what_the_library_makes_of_it) {
  for (const char* text :
       {"null", "-1", "18446744073709551615", "2.5e-3", "\"\\u00e9\\n\"", "[]", "{}", "[1,[2,{}],\"a\"]",
        "{\"a\":{\"a\":[true,false]},\"b\":null}", " \t\r\n{\"\":{}} \n"}) {
    EXPECT_EQ(parse_json(text, {}, "f.json"), baton::test::parsed_json(text)) << text;
  }
}

TEST(json_text, what_is_wrong_is_named_with_file_line_and_byte) {
  EXPECT_TRUE(says(refusal("{\n  \"a\": 1,\n  \"a\": 2}"), "f.json: line 3, byte 17",
                   "every key of an object once", "a twice"));
  EXPECT_TRUE(says(refusal("[1,\n2,,3]"), "f.json: line 2, byte 7: expected JSON, found", "unexpected ','"));
  EXPECT_TRUE(says(refusal(""), "line 1, byte 0", "unexpected end of input"));
}

TEST(json_text, what_is_almost_json_is_refused) {
  const std::string zero(1, '\0');
  for (const std::string& text :
       {std::string{"{} {}"}, "{}" + zero, "{}" + zero + "{}", "[\"" + zero + "\"]", std::string{"[1,]"},
        std::string{"{'a':1}"}, std::string{"[NaN]"}, std::string{"[01]"}, std::string{"// c\n[]"},
        std::string{"[1e999]"}, std::string{"\"\xff\""}, std::string{"\"\xc0\x80\""},
        std::string{"\"\xed\xa0\x80\""}, std::string{"\"\\ud800\""},
        std::string{"{\"a\":1,\"b\":{\"c\":1,\"d\":2,\"c\":3}}"}, std::string{"[{\"\":1,\"\":1}]"}}) {
    EXPECT_TRUE(says(refusal(text), "f.json: line 1, byte ", "expected", "found")) << text;
  }
}

TEST(json_text, nesting_bytes_and_values_have_limits) {
  EXPECT_EQ(refusal(nested(32)), "nothing was thrown");
  EXPECT_TRUE(says(refusal(nested(33)), "nesting of at most 32"));
  EXPECT_TRUE(says(refusal(std::string(1'000'000, '[')), "byte 33", "nesting of at most 32"));
  EXPECT_EQ(refusal("[1,2,3]", {.bytes = 7}), "nothing was thrown");
  EXPECT_TRUE(says(refusal("[1,2,3]", {.bytes = 6}), "at most 6 bytes", "7 bytes"));
  EXPECT_EQ(refusal("[1,2,3]", {.values = 4}), "nothing was thrown");
  EXPECT_TRUE(says(refusal("[1,2,3]", {.values = 3}), "at most 3 values"));
}

TEST(json_text, members_are_handed_over_in_their_order_and_limited_one_by_one) {
  std::string seen;
  const auto note = [&](std::string&& key, json&& value) { seen += key + "=" + value.dump() + ";"; };
  parse_members(R"({"b":1,"a":{"x":[2,3]},"b":"again","c":[]})", {.values = 4}, "f.json", note);
  EXPECT_EQ(seen, R"(b=1;a={"x":[2,3]};b="again";c=[];)");
  const auto with = [&](const char* text) {
    return message_of<bad_file>([&] { parse_members(text, {.depth = 3, .values = 4}, "f.json", note); });
  };
  EXPECT_TRUE(says(with("[1]"), "a JSON object", "an array"));
  EXPECT_TRUE(says(with(R"({"a":{"x":1,"x":2}})"), "x twice"));
  EXPECT_TRUE(says(with(R"({"a":[1,2,3,4]})"), "at most 4 values"));
  EXPECT_TRUE(says(with(R"({"a":[[[]]]})"), "nesting of at most 3"));
}

TEST(json_text, an_error_text_stays_short_whatever_the_value) {
  EXPECT_EQ(shown(json::array({1, 2})), "an array of 2 values");
  EXPECT_EQ(shown(json{{"a", 1}, {"b", 2}}), "an object with a, b");
  EXPECT_LT(shown(json(std::string(1 << 20, 'x'))).size(), 200u);
  EXPECT_LT(shown(json{{std::string(1 << 20, 'k'), 1}}).size(), 200u);
  EXPECT_LT(refusal("[" + std::string(1 << 20, 'x')).size(), 300u);
}

}  // namespace
