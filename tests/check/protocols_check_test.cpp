// Every protocol of checks/: its planted bugs are noticed for what they are. That its explorations hold is what the
// test check.all_protocols_hold_within_90_seconds_and_their_pages_are_up_to_date asks of `baton check`, once.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>

#include "checks/protocol_check.hpp"

namespace baton::checks {
namespace {

using check::verdict;

/// For names of tests: the protocol's own.
struct by_name {
  std::string operator()(const testing::TestParamInfo<std::size_t>& info) const {
    return all_protocol_checks()[info.param].name;
  }
};

class every_protocol : public testing::TestWithParam<std::size_t> {
 protected:
  const protocol_check& protocol() const { return all_protocol_checks()[GetParam()]; }
};

std::string whole_finding(const check::result& r) {
  return r.summary() + "\n" + r.text + "\n" + r.counterexample;
}

TEST_P(every_protocol, has_three_planted_bugs_at_least_and_each_is_noticed_for_what_it_is) {
  EXPECT_GE(protocol().mutants.size(), 3u);
  for (const mutant& m : protocol().mutants) {
    const check::result r = m.run({});
    const std::set<verdict> wanted{m.noticed_as.begin(), m.noticed_as.end()};
    EXPECT_TRUE(wanted.contains(r.found)) << m.name << ": " << whole_finding(r);
    EXPECT_FALSE(wanted.contains(verdict::none)) << m.name;
    EXPECT_NE(r.counterexample, "") << m.name;
  }
}

/// "F1, F2" -> F1 and F2
std::vector<std::string> each_of(const std::string& breaks) {
  std::vector<std::string> all;
  std::istringstream words{breaks};
  for (std::string word; words >> word;) all.push_back(word.substr(0, word.find(',')));
  return all;
}

TEST_P(every_protocol, names_what_a_bug_breaks_as_its_headers_do) {
  std::string headers;
  for (const std::string& name : protocol().headers) {
    std::ifstream file{std::string{BATON_SOURCE_DIR} + "/" + name};
    EXPECT_TRUE(file.is_open()) << name;
    headers += std::string{std::istreambuf_iterator<char>{file}, {}};
  }
  std::set<std::string> names;
  EXPECT_FALSE(protocol().explorations.empty());
  for (const exploration& e : protocol().explorations) EXPECT_TRUE(names.insert(e.name).second) << e.name;
  for (const mutant& m : protocol().mutants) {
    EXPECT_TRUE(names.insert(m.name).second) << "two are called " << m.name;
    for (const std::string& edge : each_of(m.breaks))
      EXPECT_TRUE(std::regex_search(headers, std::regex{"\\b" + edge + "\\b"})) << m.name << ": " << edge;
  }
}

INSTANTIATE_TEST_SUITE_P(checks, every_protocol, testing::Range<std::size_t>(0, all_protocol_checks().size()),
                         by_name{});

const mutant& find(const std::string& protocol, const std::string& name) {
  for (const protocol_check& p : all_protocol_checks()) {
    for (const mutant& m : p.mutants)
      if (p.name == protocol && m.name == name) return m;
  }
  throw std::runtime_error{"no mutant of " + protocol + " is called " + name};
}

TEST(ring_product, a_deadlock_shows_both_operands_waiting) {
  const check::result r = find("ring_product", "across k, 2x1 tiles, 2+1 producers, 1 consumer").run({});
  EXPECT_EQ(r.found, verdict::deadlock);
  EXPECT_NE(r.text.find("ring.slot_free"), std::string::npos) << r.text;
  EXPECT_NE(r.text.find("ring.slot_filled"), std::string::npos) << r.text;
}

TEST(ring_product, most_roles_that_go_through_k_once_a_tile_are_refused) {
  std::size_t refused = 0;
  for (const protocol_check& p : all_protocol_checks())
    for (const mutant& m : p.mutants) refused += p.name == "ring_product" && m.name.starts_with("across k");
  EXPECT_GT(refused, 10u);
}

}  // namespace
}  // namespace baton::checks
