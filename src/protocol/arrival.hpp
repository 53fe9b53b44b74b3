#pragma once
// Arrival words: rank s tells rank d "all my messages for this expert are in your memory, and there are c".
//
//   cell                         written by                     read by
//   word[pair], 64 bits,         one warp of rank s, once a     one warp of rank d, once a round, with
//   in d's window                round: store release, system   wait acquire, system
//
//   policy     word while waiting     word on arrival      after reading
//   epoch      {older epoch, any}     {epoch, count}       nothing: the next round has another epoch
//   sentinel   2^64 - 1               count                the reader stores 2^64 - 1 back
//
//   rank s                                       rank d
//     write payload -> d's window
//     (all warps of s: completion.hpp)  -- C1 ->
//     publish(word, epoch, count)       -- E1 ->   wait(word); read payload
//                                                  restore(word)                  [sentinel only]
//     wait for d's words of the other phase <- E2 --  publish to s in the other phase
//     write payload of the next round
//
// E1: the payload happens before the reader's access (release store, acquire wait, system scope).
// E2: dispatch and combine alternate and each waits for every rank's word, empty or not; so when s begins a
//     round's dispatch, d has left its dispatch_wait of the round before: nobody reads what s overwrites, and
//     d's restore happened before s's next publish to that word.
// Start:    epoch: all words 0, first epoch 1. sentinel: all words 2^64 - 1.
// Progress: no wait precedes the publish it depends on, as long as every rank runs the same sequence of
//           rounds. A word that fits neither state (wrong epoch, count above the capacity) never ends a wait:
//           it is reported as a stuck record with the word as seen.
// Checked:  checks/arrival.cpp has the bounds and the planted bugs.
#include <cstdint>

#include "base/macros.hpp"
#include "exec/exec.hpp"

namespace baton {

/// Where a rank waits for the words of the two phases.
struct arrival_sites {
  static consteval site dispatch() { return "dispatch.arrival"; }
  static consteval site combine() { return "combine.arrival"; }
};

/// Words carry their round: 64 bits of {epoch, count}. Epochs wrap after 2^32 rounds.
struct epoch_arrival {
  static constexpr std::uint64_t idle = 0;
  static constexpr bool restores = false;
  static constexpr std::uint64_t word(std::uint32_t epoch, std::uint32_t count) {
    return static_cast<std::uint64_t>(epoch) << 32 | count;
  }
  static constexpr bool arrived(std::uint64_t word, std::uint32_t epoch, std::uint32_t capacity) {
    return static_cast<std::uint32_t>(word >> 32) == epoch && static_cast<std::uint32_t>(word) <= capacity;
  }
  static constexpr int count(std::uint64_t word) { return static_cast<int>(word & 0xffffffffu); }
};

/// Words are the bare count; the reader restores the idle value.
struct sentinel_arrival {
  static constexpr std::uint64_t idle = ~std::uint64_t{0};
  static constexpr bool restores = true;
  static constexpr std::uint64_t word(std::uint32_t, std::uint32_t count) { return count; }
  static constexpr bool arrived(std::uint64_t word, std::uint32_t, std::uint32_t capacity) {
    return word <= capacity;
  }
  static constexpr int count(std::uint64_t word) { return static_cast<int>(word); }
};

/// One lane: publishes everything that happens before this call, by whichever warp of this rank (E1).
template <class Policy, exec_context X>
BATON_FN void publish(X& x, std::uint64_t* word, std::uint32_t epoch, int count) {
  x.template store<order::release, scope::system>(word,
                                                  Policy::word(epoch, static_cast<std::uint32_t>(count)));
}

/// The warp: waits until every lane's word (null: none) has arrived, and puts sentinels back. `seen` gets the
/// words. False: gave up, see wait in exec.hpp.
template <class Policy, exec_context X>
BATON_FN bool await(X& x, const typename X::template lanes<std::uint64_t*>& words, int capacity, wait_site at,
                    typename X::template lanes<std::uint64_t>& seen) {
  const auto limit = static_cast<std::uint32_t>(capacity);
  at.expected = Policy::word(at.epoch, 0);
  const auto arrived = [&](int, std::uint64_t word) { return Policy::arrived(word, at.epoch, limit); };
  if (!x.template wait<order::acquire, scope::system>(words, arrived, at, seen)) return false;
  if constexpr (Policy::restores) {
    x.each_lane([&](int lane) {
      if (words[lane] != nullptr) x.template store<order::relaxed, scope::system>(words[lane], Policy::idle);
    });
  }
  return true;
}

}  // namespace baton
