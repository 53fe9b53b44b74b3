#pragma once
// Random small programs, to compare the reductions of the checker with the full search.
#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "sim/check.hpp"

namespace baton::litmus {

struct instruction {
  enum class kind { store, load, fetch_add, wait, read, write, fence, branch } what;
  int cell;
  std::uint32_t value;
  bool ordered;  // release, acquire, acq_rel instead of relaxed
};

/// One list of instructions a warp; every warp on a rank of its own.
struct random_program {
  std::vector<std::vector<instruction>> warps;
  int words = 2;

  std::string text() const {
    static constexpr const char* names[] = {"store", "load",  "fetch_add", "wait",
                                            "read",  "write", "fence",     "branch"};
    std::string all;
    for (const auto& warp : warps) {
      for (const auto& i : warp) {
        all += std::string{names[static_cast<int>(i.what)]} + (i.ordered ? "!" : "") + " " +
               std::to_string(i.cell) + " " + std::to_string(i.value) + "; ";
      }
      all += "|| ";
    }
    return all;
  }
};

inline random_program make_random_program(std::mt19937& random, bool plain) {
  const auto in = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  random_program p;
  p.warps.resize(static_cast<std::size_t>(in(2, 3)));
  p.words = in(1, 2);
  using kind = instruction::kind;
  std::vector<kind> kinds = {kind::store, kind::store, kind::load, kind::load, kind::fetch_add, kind::wait};
  if (plain)
    kinds.insert(kinds.end(), {kind::read, kind::write, kind::wait, kind::wait, kind::fence, kind::branch});
  const int most = p.warps.size() == 2 ? 4 : 3;
  for (auto& warp : p.warps) {
    for (int n = in(1, most); n > 0; --n) {
      const kind what = kinds[static_cast<std::size_t>(in(0, static_cast<int>(kinds.size()) - 1))];
      warp.push_back({what, in(0, p.words - 1), static_cast<std::uint32_t>(in(1, 2)), in(0, 2) != 0});
    }
  }
  return p;
}

class interpreter {
 public:
  interpreter(check::context& x, std::uint32_t* words, std::uint32_t* data, std::uint32_t* log)
      : x_{x}, words_{words}, data_{data}, log_{log} {}

  /// False: a wait gave up.
  bool run(const instruction& i) {
    constexpr auto sys = scope::system;
    std::uint32_t* const w = words_ + i.cell;
    switch (i.what) {
      case instruction::kind::store:
        if (i.ordered)
          x_.store<order::release, sys>(w, i.value);
        else
          x_.store<order::relaxed, sys>(w, i.value);
        return true;
      case instruction::kind::load:
        return note(i.ordered ? x_.load<order::acquire, sys>(w) : x_.load<order::relaxed, sys>(w));
      case instruction::kind::fetch_add:
        return note(i.ordered ? x_.fetch_add<order::acq_rel, sys>(w, i.value)
                              : x_.fetch_add<order::relaxed, sys>(w, i.value));
      case instruction::kind::wait:
        return i.ordered ? wait<order::acquire>(i) : wait<order::relaxed>(i);
      case instruction::kind::read:
        return note(x_.read(data_ + i.cell));
      case instruction::kind::write:
        x_.write(data_ + i.cell, i.value);
        return true;
      case instruction::kind::fence:
        x_.fence<order::acq_rel, sys>();
        return true;
      default:
        if ((sum_ & 1u) != 0) x_.write(data_ + i.cell, i.value);  // control that depends on what was loaded
        return true;
    }
  }

 private:
  bool note(std::uint32_t value) {
    sum_ += value;
    *log_ = *log_ * 31 + value + 1;
    return true;
  }

  template <order Order>
  bool wait(const instruction& i) {
    check::context::lanes<std::uint32_t*> words{};
    check::context::lanes<std::uint32_t> seen{};
    words[0] = words_ + i.cell;
    if (i.value == 2) words[1] = words_;
    const auto enough = [](int, std::uint32_t now) { return now >= 1; };
    if (!x_.wait<Order, scope::system>(words, enough, wait_site{.where = site::test, .expected = 1}, seen))
      return false;
    return note(seen[0]);
  }

  check::context& x_;
  std::uint32_t* words_;
  std::uint32_t* data_;
  std::uint32_t* log_;
  std::uint32_t sum_ = 0;
};

struct behaviour {
  check::result result;
  std::set<std::string> outcomes;
};

inline behaviour behave(const random_program& program, const check::bounds& limits) {
  behaviour seen;
  seen.result = check::explore(limits, [&](check::program& p) {
    auto* words = p.allocate<std::uint32_t>(2, "word");
    auto* data = p.allocate<std::uint32_t>(2, "data");
    auto* logs = p.allocate<std::uint32_t>(3, "log");
    for (std::size_t w = 0; w < program.warps.size(); ++w) {
      p.spawn(static_cast<int>(w), 0, 0, [=, &program](check::context& x) {
        interpreter run{x, words, data, logs + w};
        for (const auto& i : program.warps[w]) {
          if (!run.run(i)) return;
        }
      });
    }
    p.at_end([=, &seen] {
      std::string outcome;
      for (int i = 0; i < 3; ++i) outcome += std::to_string(logs[i]) + " ";
      for (int i = 0; i < 2; ++i) outcome += std::to_string(words[i]) + " ";
      seen.outcomes.insert(outcome);
    });
  });
  return seen;
}

/// Empty if the reduced search agrees with the full one: both find something wrong, or both find the same
/// outcomes.
inline std::string disagreement(const random_program& program, const behaviour& full,
                                const check::bounds& reduced) {
  const behaviour seen = behave(program, reduced);
  const bool wrong = full.result.found != check::verdict::none;
  if ((seen.result.found != check::verdict::none) != wrong) {
    return program.text() + "\n  full: " + full.result.summary() + " " + full.result.text +
           "\n  reduced: " + seen.result.summary() + " " + seen.result.text;
  }
  if (!wrong && seen.outcomes != full.outcomes) {
    return program.text() + "\n  full: " + std::to_string(full.outcomes.size()) +
           " outcomes, reduced: " + std::to_string(seen.outcomes.size());
  }
  return {};
}

}  // namespace baton::litmus
