#pragma once
// The arrival protocol as the exchange uses it: rounds of a full all-to-all dispatch and a full all-to-all
// combine on the same buffers. One warp a rank; each rank sends to every rank, itself included.
#include <array>
#include <functional>
#include <string>

#include "protocol/arrival.hpp"

namespace baton::checks {

inline constexpr int most_ranks = 4;
inline constexpr int payload_words = 2;

/// One phase's part of a rank's window: for each source its arrival word and its payload.
struct arrival_window {
  std::uint64_t* words = nullptr;    // [ranks]
  std::uint32_t* payload = nullptr;  // [ranks, payload_words]
};

struct arrival_world {
  int ranks = 0;
  std::array<arrival_window, most_ranks> dispatch, combine;
};

/// What is wrong with the rounds, for mutants that are not about one access.
enum class round_fault {
  none,
  no_combine,        // the next dispatch follows without the combine phase between
  publish_first,     // the word before the payload
  reads_late,        // dispatch's payload is read after the combine is published
  restores_late,     // dispatch's sentinels are put back after the combine is published
  waits_for_itself,  // dispatch_wait looks at the rank's own word only
  skips_empty,       // a rank with nothing to send publishes nothing
  same_epoch,        // the epoch never advances
};

/// Idle words and payload from `memory`, which has allocate<T>(count, name).
template <class Policy, class Memory>
arrival_world make_world(Memory& memory, int ranks) {
  arrival_world w;
  w.ranks = ranks;
  const auto window = [&](const std::string& phase, int rank) {
    const std::string name = phase + " of rank " + std::to_string(rank) + ", ";
    const auto n = static_cast<std::size_t>(ranks);
    const arrival_window made{memory.template allocate<std::uint64_t>(n, name + "word"),
                              memory.template allocate<std::uint32_t>(n * payload_words, name + "payload")};
    for (int source = 0; source < ranks; ++source) made.words[source] = Policy::idle;
    return made;
  };
  for (int rank = 0; rank < ranks; ++rank) {
    w.dispatch[static_cast<std::size_t>(rank)] = window("dispatch", rank);
    w.combine[static_cast<std::size_t>(rank)] = window("combine", rank);
  }
  return w;
}

/// Called with whether something holds, and what.
using promise = std::function<void(bool, const char*)>;

/// One rank's rounds on a context X.
template <class Policy, class X>
class arrival_rank {
 public:
  arrival_rank(X& x, const arrival_world& w, round_fault fault, promise require)
      : x_{x}, world_{w}, fault_{fault}, require_{std::move(require)} {}

  void run(int rounds) {
    for (round_ = 1; round_ <= static_cast<std::uint32_t>(rounds); ++round_) {
      send(world_.dispatch);
      if (!await_all(world_.dispatch, arrival_sites::dispatch())) return;
      if (fault_ != round_fault::reads_late) receive(world_.dispatch);
      if (fault_ == round_fault::no_combine) continue;
      send(world_.combine);
      if (fault_ == round_fault::reads_late) receive(world_.dispatch);
      if (fault_ == round_fault::restores_late) restore(world_.dispatch);
      if (!await_all(world_.combine, arrival_sites::combine())) return;
      receive(world_.combine);
    }
  }

 private:
  using windows = std::array<arrival_window, most_ranks>;
  static constexpr int capacity = 1;

  std::uint32_t epoch() const { return fault_ == round_fault::same_epoch ? 1 : round_; }
  /// Whether `source` has something for `target` in this round: every pair is empty at times.
  int count(int source, int target) const {
    return (source + 2 * target + static_cast<int>(round_)) % 3 == 0 ? 0 : 1;
  }
  std::uint32_t value(int source, int target) const {
    return round_ * 100 + static_cast<std::uint32_t>(source * 10 + target);
  }

  void send(const windows& phase) {
    for (int target = 0; target < world_.ranks; ++target) {
      const arrival_window& w = phase[static_cast<std::size_t>(target)];
      const int sent = count(x_.rank(), target);
      if (fault_ == round_fault::publish_first) publish<Policy>(x_, w.words + x_.rank(), epoch(), sent);
      if (sent != 0) {
        x_.each(payload_words, [&](int i) {
          x_.write(w.payload + x_.rank() * payload_words + i, value(x_.rank(), target));
        });
      }
      if (fault_ == round_fault::publish_first || (fault_ == round_fault::skips_empty && sent == 0)) continue;
      publish<Policy>(x_, w.words + x_.rank(), epoch(), sent);
    }
  }

  bool await_all(const windows& phase, site where) {
    const bool dispatch = where == arrival_sites::dispatch();
    const arrival_window& mine = phase[static_cast<std::size_t>(x_.rank())];
    typename X::template lanes<std::uint64_t*> words{};
    typename X::template lanes<std::uint64_t> seen{};
    for (int source = 0; source < world_.ranks; ++source) {
      if (dispatch && fault_ == round_fault::waits_for_itself && source != x_.rank()) continue;
      words[source] = mine.words + source;
    }
    const wait_site at{.where = where, .peer = 0, .epoch = epoch(), .peer_modulus = world_.ranks};
    if (dispatch && fault_ == round_fault::restores_late)
      return await<never_restoring>(x_, words, capacity, at, seen);
    if (!await<Policy>(x_, words, capacity, at, seen)) return false;
    for (int source = 0; source < world_.ranks; ++source) {
      if (words[source] == nullptr) continue;
      require_(Policy::count(seen[source]) == count(source, x_.rank()), "the count is this round's");
    }
    return true;
  }

  void receive(const windows& phase) {
    const arrival_window& mine = phase[static_cast<std::size_t>(x_.rank())];
    for (int source = 0; source < world_.ranks; ++source) {
      if (count(source, x_.rank()) == 0) continue;
      x_.each(payload_words, [&](int i) {
        const std::uint32_t got = x_.read(mine.payload + source * payload_words + i);
        require_(got == value(source, x_.rank()), "the payload is this round's");
      });
    }
  }

  void restore(const windows& phase) {
    for (int source = 0; source < world_.ranks; ++source) {
      x_.template store<order::relaxed, scope::system>(
          phase[static_cast<std::size_t>(x_.rank())].words + source, Policy::idle);
    }
  }

  struct never_restoring : Policy {
    static constexpr bool restores = false;
  };

  X& x_;
  const arrival_world& world_;
  round_fault fault_;
  promise require_;
  std::uint32_t round_ = 0;
};

}  // namespace baton::checks
