#pragma once
// Small programs of atomic and plain accesses at any scope, for the comparison of the checker with the axioms.
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "sim/check.hpp"

namespace baton::litmus {

enum class act { store, load, add, fence, read, write };

struct access {
  act what;
  int cell;
  std::uint32_t value;
  order ordering;
  scope reach;
  bool guarded;  // plain accesses: only if the last value loaded was not 0
};

struct axiom_program {
  static constexpr int words = 2;
  std::vector<check::position> at;  // of each warp
  std::vector<std::vector<access>> warps;

  std::string text() const {
    static constexpr const char *acts[] = {"store", "load", "add", "fence", "read", "write"},
                                *orders[] = {"relaxed", "acquire", "release", "acq_rel"},
                                *scopes[] = {"block", "cluster", "device", "system"};
    std::string all;
    for (std::size_t w = 0; w < warps.size(); ++w) {
      all += "(" + check::name(at[w]) + ") ";
      for (const access& a : warps[w])
        all += std::string{a.guarded ? "? " : ""} + acts[static_cast<int>(a.what)] + "." +
               orders[static_cast<int>(a.ordering)] + "." + scopes[static_cast<int>(a.reach)] + " " +
               std::to_string(a.cell) + " " + std::to_string(a.value) + "; ";
    }
    return all;
  }
};

inline std::uint32_t logged(std::uint32_t log, std::uint32_t value) {
  return log * 31 + value + 1;
}

/// Warps of three ranks, of one rank, or of two; no more than six loads and six stores.
class axiom_program_maker {
 public:
  explicit axiom_program_maker(unsigned seed) : random_{seed} {}

  axiom_program make(bool plain) {
    for (;;) {
      axiom_program p = any(plain);
      int loads = 0, stores = 0;
      for (const auto& warp : p.warps) {
        for (const access& a : warp) {
          loads += a.what == act::load || a.what == act::add ? 1 : 0;
          stores += a.what == act::store || a.what == act::add ? 1 : 0;
        }
      }
      if (loads <= 6 && stores <= 6) return p;
    }
  }

 private:
  int in(int low, int high) {
    return low + static_cast<int>(random_() % static_cast<unsigned>(high - low + 1));
  }

  axiom_program any(bool plain) {
    static constexpr check::position layouts[3][3] = {{{0, 0, 0}, {1, 0, 0}, {2, 0, 0}},
                                                      {{0, 0, 0}, {0, 0, 1}, {0, 1, 0}},
                                                      {{0, 0, 0}, {0, 1, 0}, {1, 0, 0}}};
    axiom_program p;
    const int warps = in(2, 3), layout = plain ? in(0, 2) : 0;
    for (int w = 0; w < warps; ++w) {
      p.at.push_back(layouts[layout][w]);
      p.warps.emplace_back();
      for (int n = in(1, warps == 2 ? 5 : 4); n > 0; --n) p.warps.back().push_back(one(w, layout, plain));
    }
    return p;
  }

  access one(int warp, int layout, bool plain) {
    access a{};
    const int kind = in(0, plain ? 16 : 10);
    a.what = kind < 3    ? act::store
             : kind < 6  ? act::load
             : kind < 9  ? act::add
             : kind < 11 ? act::fence
             : kind < 14 ? act::read
                         : act::write;
    a.cell = in(0, axiom_program::words - 1);
    if (a.what == act::store && a.cell != warp && in(0, 3) != 0)
      a.what = act::add;  // stores of two are unordered
    a.value = static_cast<std::uint32_t>(in(1, 2));
    a.guarded = in(0, 3) != 0;
    a.reach = layout == 0                   ? scope::system
              : layout == 1 && in(0, 2) > 0 ? scope::device
              : layout == 1                 ? scope::block
              : in(0, 3) > 0                ? scope::system
                                            : scope::device;
    const int strength = in(0, 2);
    a.ordering = strength == 0          ? order::relaxed
                 : a.what == act::store ? order::release
                 : a.what == act::load  ? order::acquire
                 : strength == 1        ? order::acq_rel
                 : in(0, 1) != 0        ? order::acquire
                                        : order::release;
    if (a.what == act::fence && a.ordering == order::relaxed) a.ordering = order::acq_rel;
    return a;
  }

  std::mt19937 random_;
};

/// Runs one warp of it in the checker.
class axiom_warp {
 public:
  axiom_warp(check::context& x, std::uint32_t* words, std::uint32_t* data, std::uint32_t& log)
      : x_{x}, words_{words}, data_{data}, log_{log} {}

  void run(const access& a) {
    switch (a.reach) {
      case scope::block:
        return run_at<scope::block>(a);
      case scope::device:
        return run_at<scope::device>(a);
      default:
        return run_at<scope::system>(a);
    }
  }

 private:
  template <scope Scope>
  void run_at(const access& a) {
    switch (a.ordering) {
      case order::relaxed:
        return run_as<order::relaxed, Scope>(a);
      case order::acquire:
        return run_as<order::acquire, Scope>(a);
      case order::release:
        return run_as<order::release, Scope>(a);
      default:
        return run_as<order::acq_rel, Scope>(a);
    }
  }
  template <order Order, scope Scope>
  void run_as(const access& a) {
    const bool skipped = a.guarded && last_ == 0;
    switch (a.what) {
      case act::store:
        return x_.store<Order, Scope>(words_ + a.cell, a.value);
      case act::load:
        return note(x_.load<Order, Scope>(words_ + a.cell));
      case act::add:
        return note(x_.fetch_add<Order, Scope>(words_ + a.cell, a.value));
      case act::fence:
        if constexpr (Order != order::relaxed) x_.fence<Order, Scope>();
        return;
      case act::read:
        if (!skipped) x_.read(data_ + a.cell);
        return;
      default:
        if (!skipped) x_.write(data_ + a.cell, a.value);
    }
  }
  void note(std::uint32_t value) { log_ = logged(log_, last_ = value); }

  check::context& x_;
  std::uint32_t *words_, *data_, &log_;
  std::uint32_t last_ = 0;
};

/// What the checker finds, and the outcomes it has seen.
inline check::result explored(const axiom_program& program, const check::bounds& limits,
                              std::set<std::string>& outcomes) {
  return check::explore(limits, [&](check::program& p) {
    auto* words = p.allocate<std::uint32_t>(axiom_program::words, "word");
    auto* data = p.allocate<std::uint32_t>(axiom_program::words, "data");
    auto* logs = p.allocate<std::uint32_t>(program.warps.size(), "log");
    for (std::size_t w = 0; w < program.warps.size(); ++w) {
      const check::position& at = program.at[w];
      p.spawn(at.rank, at.block, at.warp, [=, &program](check::context& x) {
        axiom_warp warp{x, words, data, logs[w]};
        for (const access& a : program.warps[w]) warp.run(a);
      });
    }
    p.at_end([=, &outcomes, &program] {
      std::string text;
      for (std::size_t w = 0; w < program.warps.size(); ++w) text += std::to_string(logs[w]) + " ";
      for (int i = 0; i < axiom_program::words; ++i) text += std::to_string(words[i]) + " ";
      outcomes.insert(text);
    });
  });
}

}  // namespace baton::litmus
