#pragma once
// The memory model a second time, as axioms over whole executions, and every execution of a small program that they allow.
// Nothing of it is shared with the checker but the vocabulary.
//
//   execution     for each read the store it reads from (rf), for each word an order of its stores (mo)
//   consistent    program order and rf have no cycle; a read-modify-write follows what it reads in mo; what happens
//                 before something is not newer than it (coherence)
//   happens       program order, and from a release to an acquire that reads it or a chain of read-modify-writes on it,
//   before        each in the other's scope
//   wrong         some consistent execution has a data race, a scope race, or a store that nothing orders after the one
//                 before it in mo
#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tests/check/axiom_program.hpp"

namespace baton::litmus {

struct truth {
  bool race = false, scope_race = false, unordered_stores = false;
  std::set<std::string> outcomes;
  bool wrong() const { return race || scope_race || unordered_stores; }
};

/// Of up to 32 events: row a has bit b if a comes before b.
struct relation {
  std::array<std::uint32_t, 32> row{};
  bool has(int a, int b) const { return (row[static_cast<std::size_t>(a)] >> b & 1u) != 0; }
  void add(int a, int b) { row[static_cast<std::size_t>(a)] |= 1u << b; }
  void close(int n) {
    for (int k = 0; k < n; ++k)
      for (int a = 0; a < n; ++a)
        if (has(a, k)) row[static_cast<std::size_t>(a)] |= row[static_cast<std::size_t>(k)];
  }
  bool has_cycle(int n) const {
    for (int a = 0; a < n; ++a)
      if (has(a, a)) return true;
    return false;
  }
};

class axioms {
 public:
  explicit axioms(const axiom_program& program) : program_{program} {
    for (int cell = 0; cell < axiom_program::words; ++cell)
      events_.push_back({-1, {act::store, cell, 0, order::relaxed, scope::system, false}});
    for (std::size_t w = 0; w < program.warps.size(); ++w)
      for (const access& a : program.warps[w]) events_.push_back({static_cast<int>(w), a});
    n_ = static_cast<int>(events_.size());
    for (int e = 0; e < n_; ++e) {
      if (reads(e)) reads_.push_back(e);
      if (writes(e)) mo_[cell(e)].push_back(e);
      for (int later = e + 1; later < n_; ++later)
        if (at(later).warp >= 0 && (at(e).warp < 0 || at(e).warp == at(later).warp)) po_.add(e, later);
    }
    rf_.assign(static_cast<std::size_t>(n_), -1);
    place_.assign(static_cast<std::size_t>(n_), 0);
  }

  truth enumerate() {
    do {
      do {
        for (const auto& order : mo_)
          for (std::size_t i = 0; i < order.size(); ++i) place_[index(order[i])] = static_cast<int>(i);
        choose_sources(0);
      } while (std::next_permutation(mo_[1].begin() + 1, mo_[1].end()));
    } while (std::next_permutation(mo_[0].begin() + 1, mo_[0].end()));
    return std::move(found_);
  }

 private:
  struct event {
    int warp;  // -1: the value before the program began
    access did;
  };
  static std::size_t index(int e) { return static_cast<std::size_t>(e); }
  const event& at(int e) const { return events_[index(e)]; }
  std::size_t cell(int e) const { return static_cast<std::size_t>(at(e).did.cell); }
  bool initial(int e) const { return at(e).warp < 0; }
  bool writes(int e) const { return at(e).did.what == act::store || at(e).did.what == act::add; }
  bool reads(int e) const { return at(e).did.what == act::load || at(e).did.what == act::add; }
  bool plain(int e) const { return at(e).did.what == act::read || at(e).did.what == act::write; }
  bool fence(int e) const { return at(e).did.what == act::fence; }
  bool releases(int e) const {
    return at(e).did.ordering == order::release || at(e).did.ordering == order::acq_rel;
  }
  bool acquires(int e) const {
    return at(e).did.ordering == order::acquire || at(e).did.ordering == order::acq_rel;
  }
  bool reaches(int a, int b) const {
    const check::position &from = program_.at[index(at(a).warp)], &to = program_.at[index(at(b).warp)];
    if (at(a).did.reach == scope::system) return true;
    return from.rank == to.rank && (at(a).did.reach == scope::device || from.block == to.block);
  }
  bool strong(int a, int b) const { return !initial(a) && !initial(b) && reaches(a, b) && reaches(b, a); }

  void choose_sources(std::size_t i) {
    if (i == reads_.size()) return judge();
    const int r = reads_[i];
    for (const int w : mo_[cell(r)]) {
      if (w == r || (writes(r) && place_[index(r)] != place_[index(w)] + 1)) continue;
      rf_[index(r)] = w;
      choose_sources(i + 1);
    }
  }

  void judge() {
    relation order = po_;
    for (const int r : reads_) order.add(rf_[index(r)], r);
    order.close(n_);
    if (order.has_cycle(n_)) return;
    hb_ = po_;
    for (const int r : reads_) synchronise(r);
    hb_.close(n_);
    if (hb_.has_cycle(n_) || !coherent()) return;
    note_outcome();
    note_faults();
  }

  /// Edges to `r`, and to fences after it, from the releases of what it reads.
  void synchronise(int r) {
    int reader = r, w = rf_[index(r)];
    while (!initial(w) && strong(w, reader)) {
      for (int a = 0; a < n_; ++a) {
        if (!is_release_of(a, w) || at(a).warp == at(r).warp) continue;
        for (int b = 0; b < n_; ++b) {
          const bool hears = (b == r && acquires(r)) || (fence(b) && acquires(b) && po_.has(r, b));
          if (hears && strong(a, b)) hb_.add(a, b);
        }
      }
      if (!reads(w)) return;
      reader = w;
      w = rf_[index(w)];
    }
  }
  /// The store itself, a fence before it, or an earlier store of its warp to the word.
  bool is_release_of(int a, int w) const {
    if (initial(a) || !releases(a)) return false;
    if (a == w) return true;
    return po_.has(a, w) && (fence(a) || (writes(a) && cell(a) == cell(w)));
  }

  bool coherent() const {
    for (int a = 0; a < n_; ++a) {
      for (int b = 0; b < n_; ++b) {
        if (!hb_.has(a, b) || plain(a) || plain(b) || fence(a) || fence(b) || cell(a) != cell(b)) continue;
        const int known = place_[index(writes(a) ? a : rf_[index(a)])];
        if (reads(b) ? place_[index(rf_[index(b)])] < known : place_[index(b)] <= known) return false;
      }
    }
    return true;
  }

  std::uint32_t value(int w) const {
    const std::uint32_t own = at(w).did.value;
    return at(w).did.what == act::add ? value(rf_[index(w)]) + own : own;
  }

  /// Also which of the guarded accesses happen.
  void note_outcome() {
    std::string text;
    happens_.assign(index(n_), true);
    for (std::size_t warp = 0; warp < program_.warps.size(); ++warp) {
      std::uint32_t log = 0, last = 0;
      for (int e = 0; e < n_; ++e) {
        if (at(e).warp != static_cast<int>(warp)) continue;
        if (reads(e)) log = logged(log, last = value(rf_[index(e)]));
        if (plain(e) && at(e).did.guarded) happens_[index(e)] = last != 0;
      }
      text += std::to_string(log) + " ";
    }
    for (const auto& order : mo_) text += std::to_string(value(order.back())) + " ";
    found_.outcomes.insert(text);
  }

  void note_faults() {
    for (int a = 0; a < n_; ++a) {
      for (int b = a + 1; b < n_; ++b) {
        if (initial(a) || at(a).warp == at(b).warp || hb_.has(a, b) || hb_.has(b, a) || cell(a) != cell(b))
          continue;
        if (fence(a) || fence(b) || plain(a) != plain(b)) continue;
        if (!plain(a)) {
          found_.scope_race = found_.scope_race || ((writes(a) || writes(b)) && !strong(a, b));
        } else if (happens_[index(a)] && happens_[index(b)]) {
          found_.race = found_.race || at(a).did.what == act::write || at(b).did.what == act::write;
        }
      }
    }
    for (const auto& order : mo_)
      for (std::size_t i = 1; i + 1 < order.size(); ++i)
        if (!reads(order[i + 1]) && !ordered(order[i], order[i + 1])) found_.unordered_stores = true;
  }
  bool ordered(int a, int b) const {
    if (at(a).warp == at(b).warp || hb_.has(a, b)) return true;
    return std::any_of(reads_.begin(), reads_.end(),
                       [&](int r) { return rf_[index(r)] == a && hb_.has(r, b); });
  }

  const axiom_program& program_;
  std::vector<event> events_;
  std::vector<int> reads_;
  std::array<std::vector<int>, axiom_program::words> mo_;
  std::vector<int> rf_, place_;
  std::vector<bool> happens_;
  relation po_, hb_;
  int n_ = 0;
  truth found_;
};

}  // namespace baton::litmus
