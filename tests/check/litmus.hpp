#pragma once
// Small programs whose outcomes are known, for the tests of the checker itself.
#include <array>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "sim/check.hpp"

namespace baton::litmus {

using check::context;
using check::program;
using check::verdict;

constexpr auto relaxed = order::relaxed;
constexpr auto acquire = order::acquire;
constexpr auto release = order::release;
constexpr auto acq_rel = order::acq_rel;
constexpr auto sys = scope::system;
constexpr auto dev = scope::device;
constexpr auto blk = scope::block;

/// The shared state of a litmus program: two atomic words, a plain one, and registers for what was loaded.
struct cells {
  std::uint32_t* x;
  std::uint32_t* y;
  std::uint32_t* data;
  std::uint32_t* r;  // [4], each written by one warp outside the model
};

struct test {
  const char* name;
  std::function<void(program&, const cells&)> build;
  verdict expected = verdict::none;
  std::set<std::string> outcomes{};  // what `show` may print; empty: not compared
  std::function<std::string(const cells&)> show{};
  bool time_outs = false;
};

struct observation {
  check::result result;
  std::set<std::string> outcomes;
};

inline observation observe(const test& t, check::bounds limits) {
  observation seen;
  if (t.time_outs) limits.may_time_out = [](const wait_site&) { return true; };
  seen.result = check::explore(limits, [&](program& p) {
    const cells c{p.allocate<std::uint32_t>(1, "x"), p.allocate<std::uint32_t>(1, "y"),
                  p.allocate<std::uint32_t>(1, "data"), p.allocate<std::uint32_t>(4, "r")};
    t.build(p, c);
    p.at_end([&seen, &t, c] { seen.outcomes.insert(t.show ? t.show(c) : std::string{}); });
  });
  return seen;
}

/// Whether the observation is what the memory model demands.
inline bool as_expected(const test& t, const observation& seen) {
  if (seen.result.found != t.expected) return false;
  if (t.expected != verdict::none) return true;
  return seen.result.complete && (t.outcomes.empty() || seen.outcomes == t.outcomes);
}

/// Waits until the word holds `value`.
template <order Order, scope Scope>
bool wait_for(context& x, std::uint32_t* word, std::uint32_t value) {
  context::lanes<std::uint32_t*> words{};
  context::lanes<std::uint32_t> seen{};
  words[0] = word;
  return x.wait<Order, Scope>(
      words, [=](int, std::uint32_t now) { return now == value; },
      wait_site{.where = "test", .expected = value}, seen);
}

inline std::string registers(const cells& c, int n) {
  std::string text;
  for (int i = 0; i < n; ++i) text += std::to_string(c.r[i]);
  return text;
}

}  // namespace baton::litmus
