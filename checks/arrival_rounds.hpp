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

/// Idle words and payload from `memory`, which has allocate<T>(count, name).
template <class Policy, class Memory>
arrival_world make_world(Memory& memory, int ranks) {
  arrival_world w;
  w.ranks = ranks;
  const auto window = [&](const std::string& phase, int rank) {
    const std::string whose = " of rank " + std::to_string(rank);
    const auto n = static_cast<std::size_t>(ranks);
    const arrival_window made{
        memory.template allocate<std::uint64_t>(n, phase + " word" + whose),
        memory.template allocate<std::uint32_t>(n * payload_words, phase + " payload" + whose)};
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

/// One rank's rounds on a context X. Not to combine is what no caller may do.
template <class Policy, class X>
class arrival_rank {
 public:
  arrival_rank(X& x, const arrival_world& w, promise require, bool combines = true)
      : x_{x}, world_{w}, require_{std::move(require)}, combines_{combines} {}

  void run(int rounds) {
    for (round_ = 1; round_ <= static_cast<std::uint32_t>(rounds); ++round_) {
      send(world_.dispatch);
      if (!await_all(world_.dispatch, arrival_sites::dispatch())) return;
      receive(world_.dispatch);
      if (!combines_) continue;
      send(world_.combine);
      if (!await_all(world_.combine, arrival_sites::combine())) return;
      receive(world_.combine);
    }
  }

 private:
  using windows = std::array<arrival_window, most_ranks>;
  static constexpr int capacity = 1;

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
      if (sent != 0) {
        x_.each(payload_words, [&](int i) {
          x_.write(w.payload + x_.rank() * payload_words + i, value(x_.rank(), target));
        });
      }
      publish<Policy>(x_, w.words + x_.rank(), round_, sent);
    }
  }

  bool await_all(const windows& phase, site where) {
    const arrival_window& mine = phase[static_cast<std::size_t>(x_.rank())];
    typename X::template lanes<std::uint64_t*> words{};
    typename X::template lanes<std::uint64_t> seen{};
    for (int source = 0; source < world_.ranks; ++source) words[source] = mine.words + source;
    const wait_site at{.where = where, .peer = 0, .epoch = round_, .peer_modulus = world_.ranks};
    if (!await<Policy>(x_, words, capacity, at, seen)) return false;
    for (int source = 0; source < world_.ranks; ++source)
      require_(Policy::count(seen[source]) == count(source, x_.rank()), "the count is this round's");
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

  X& x_;
  const arrival_world& world_;
  promise require_;
  bool combines_;
  std::uint32_t round_ = 0;
};

}  // namespace baton::checks
