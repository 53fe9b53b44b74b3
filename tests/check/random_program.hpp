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
  enum class kind {
    store,
    load,
    fetch_add,
    wait,
    wait_exact,
    read,
    write,
    fence,
    branch,
    arrive,
    phase,
    meet,
    count
  } what;
  int cell;
  std::uint32_t value;
  bool ordered;  // release, acquire, acq_rel instead of relaxed
};

/// One list of instructions a warp; every warp on a rank of its own, or all in one block if they use mbarriers, or in a block
/// each if they count.
struct random_program {
  std::vector<std::vector<instruction>> warps;
  int words = 2;
  int arrivals = 0;           // of each mbarrier; 0: no mbarriers
  int target = 0;             // of each counter; 0: no counters
  bool by_fetch_add = false;  // counts are fetch_adds

  std::string text() const {
    static constexpr const char* names[] = {"store", "load",  "fetch_add", "wait",   "wait_exact",
                                            "read",  "write", "fence",     "branch", "arrive",
                                            "phase", "meet",  "count"};
    std::string all = arrivals == 0 ? "" : std::to_string(arrivals) + " arrivals: ";
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
  std::vector<kind> kinds = {kind::store,     kind::store, kind::load,      kind::load,
                             kind::fetch_add, kind::wait,  kind::wait_exact};
  if (plain)
    kinds.insert(kinds.end(), {kind::read, kind::write, kind::wait, kind::wait, kind::fence, kind::branch});
  const int most = p.warps.size() == 2 ? 4 : 3;
  for (std::size_t w = 0; w < p.warps.size(); ++w) {
    for (int n = in(1, most); n > 0; --n) {
      kind what = kinds[static_cast<std::size_t>(in(0, static_cast<int>(kinds.size()) - 1))];
      const int cell = in(0, p.words - 1);
      const bool is_owner = static_cast<std::size_t>(cell) == w;
      if (what == kind::store && !is_owner && in(0, 7) != 0)
        what = kind::fetch_add;  // stores of two are unordered
      p.warps[w].push_back({what, cell, static_cast<std::uint32_t>(in(1, 2)), in(0, 2) != 0});
    }
  }
  return p;
}

/// Programs of arrivals and waits for phases, with loads, stores and plain reads between them. Half of them mostly
/// arrive and wait at once, which is right if every warp does.
inline random_program make_random_phases(std::mt19937& random) {
  random_program p = make_random_program(random, true);
  const auto warps = static_cast<int>(p.warps.size());
  const bool meets = random() % 2 == 0;
  p.words = 2;
  p.arrivals = meets ? warps : 1 + static_cast<int>(random() % 2);
  using kind = instruction::kind;
  std::vector<kind> kinds = {kind::arrive, kind::phase, kind::arrive, kind::phase,
                             kind::read,   kind::load,  kind::store};
  if (meets)
    kinds = {kind::meet,   kind::meet,  kind::meet, kind::meet,
             kind::arrive, kind::write, kind::load, kind::store};
  for (auto& warp : p.warps)
    for (instruction& i : warp) i.what = kinds[random() % kinds.size()];
  return p;
}

/// Programs that count, sometimes put the counter back when they have reached the target, and look at other words and data
/// between. Few of them look at a counter otherwise.
inline random_program make_random_counts(std::mt19937& random) {
  random_program p = make_random_program(random, true);
  p.words = 2;
  p.target = 2 + static_cast<int>(random() % 2);
  using kind = instruction::kind;
  const std::vector<kind> kinds = {kind::count, kind::count, kind::count, kind::count, kind::branch,
                                   kind::write, kind::read,  kind::load,  kind::store};
  for (auto& warp : p.warps) {
    for (instruction& i : warp) {
      i.what = kinds[random() % kinds.size()];
      const bool looks = i.what == kind::load || i.what == kind::store;
      if (looks && random() % 8 != 0) i.cell = 1;  // the counter is word 0, mostly
      if (i.what == kind::count && random() % 8 != 0) i.cell = 0;
    }
  }
  return p;
}

class interpreter {
 public:
  interpreter(check::context& x, const random_program& program, std::uint32_t* words, std::uint32_t* data,
              std::uint32_t* log, mbarrier* bars)
      : x_{x}, program_{program}, words_{words}, data_{data}, log_{log}, bars_{bars} {}

  /// False: a wait gave up.
  bool run(const instruction& i) {
    std::uint32_t* const w = words_ + i.cell;
    switch (i.what) {
      case instruction::kind::store:
        if (i.ordered)
          x_.store<order::release, scope::system>(w, i.value);
        else
          x_.store<order::relaxed, scope::system>(w, i.value);
        return true;
      case instruction::kind::load:
        return note(i.ordered ? x_.load<order::acquire, scope::system>(w)
                              : x_.load<order::relaxed, scope::system>(w));
      case instruction::kind::fetch_add:
        return note(i.ordered ? x_.fetch_add<order::acq_rel, scope::system>(w, i.value)
                              : x_.fetch_add<order::relaxed, scope::system>(w, i.value));
      case instruction::kind::wait:
        return i.ordered ? wait<order::acquire>(i) : wait<order::relaxed>(i);
      case instruction::kind::wait_exact:
        return i.ordered ? wait<order::acquire>(i) : wait<order::relaxed>(i);
      case instruction::kind::read:
        return note(x_.read(data_ + i.cell));
      case instruction::kind::write:
        x_.write(data_ + i.cell, i.value);
        return true;
      case instruction::kind::arrive:
        x_.mbarrier_arrive(bars_ + i.cell, 1);
        return true;
      case instruction::kind::phase:
        return pass(i.cell);
      case instruction::kind::meet:
        x_.mbarrier_arrive(bars_ + i.cell, 1);
        return pass(i.cell);
      case instruction::kind::count:
        return count(i);
      case instruction::kind::fence:
        x_.fence<order::acq_rel, scope::system>();
        return true;
      default:
        if ((sum_ & 1u) != 0) x_.write(data_ + i.cell, i.value);  // control that depends on what was loaded
        return true;
    }
  }

 private:
  bool count(const instruction& i) {
    const auto target = static_cast<std::uint32_t>(program_.target);
    std::uint32_t* const w = words_ + i.cell;
    bool last = false;
    if (program_.by_fetch_add)
      last = (i.ordered ? x_.fetch_add<order::acq_rel, scope::system>(w, 1u)
                        : x_.fetch_add<order::relaxed, scope::system>(w, 1u)) +
                 1 ==
             target;
    else
      last = i.ordered ? x_.count_to<order::acq_rel, scope::system>(w, 1u, target)
                       : x_.count_to<order::relaxed, scope::system>(w, 1u, target);
    note(last ? 1 : 0);
    if (last && i.value == 2) x_.store<order::relaxed, scope::system>(w, 0u);
    return true;
  }

  bool pass(int bar) {
    return x_.mbarrier_wait<scope::block>(bars_ + bar, parity_of(passed_[bar]++), wait_site{.where = "test"});
  }

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
    const bool is_exact = i.what == instruction::kind::wait_exact;
    const auto enough = [&](int, std::uint32_t now) { return is_exact ? now == i.value : now >= 1; };
    if (!x_.wait<Order, scope::system>(words, enough, wait_site{.where = "test", .expected = 1}, seen))
      return false;
    return note(seen[0]);
  }

  check::context& x_;
  const random_program& program_;
  std::uint32_t* words_;
  std::uint32_t* data_;
  std::uint32_t* log_;
  mbarrier* bars_;
  std::uint32_t passed_[2] = {};
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
    auto* bars = p.allocate<mbarrier>(2, "mbarrier");
    for (int i = 0; i < 2; ++i) bars[i].opaque = sim::initialised(program.arrivals).word();
    for (std::size_t w = 0; w < program.warps.size(); ++w) {
      const int number = static_cast<int>(w), rank = program.arrivals + program.target > 0 ? 0 : number;
      const int block = program.target > 0 ? number : 0;
      p.spawn(rank, block, number - rank - block, [=, &program](check::context& x) {
        interpreter run{x, program, words, data, logs + w, bars};
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
