#pragma once
// Arrival words: rank s tells rank d "all my messages for this expert are in your memory, and there are c".
//
//   cell                         written by                     read by
//   word[pair], 64 bits,         one warp of rank s, once a     one warp of rank d, once a round, with
//   in d's window                round: store release, system   wait acquire, system
//
//   policy     word while waiting     word on arrival             after reading
//   epoch      {older epoch, any}     {epoch, check, count}       nothing: the next round has another epoch
//   sentinel   2^64 - 1               {0, check, count}           the reader stores 2^64 - 1 back
//
//   bits 63 to 32: epoch; 31 to 17: check, a function of the other two; 16 to 0: count
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
//           rounds. A word that fits neither state (wrong epoch, wrong check, count above the capacity) never ends
//           a wait: it is reported as a stuck record with the word as seen. A word with one flipped bit, or with two
//           in epoch and count, never fits.
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

namespace arrival_word {

inline constexpr std::uint32_t most = 0x1ffff;  // count that a word can say

/// The factors (those of xxHash32) are chosen so that any change of one or two bits of epoch and count moves the sum
/// by at least 2^17, either way round, and so changes the check; a test tries them all. All bits 0 is no word.
constexpr std::uint64_t of(std::uint32_t epoch, std::uint32_t count) {
  const std::uint32_t check = (epoch * 0x9e3779b1u + count * 0xc2b2ae3du + 0x27d4eb2fu) >> 17;
  return static_cast<std::uint64_t>(epoch) << 32 | check << 17 | count;
}
constexpr std::uint32_t count(std::uint64_t word) {
  return static_cast<std::uint32_t>(word) & most;
}
constexpr bool is(std::uint64_t word, std::uint32_t epoch, std::uint32_t capacity) {
  return word == of(epoch, count(word)) && count(word) <= capacity;
}

}  // namespace arrival_word

/// Words carry their round. Epochs wrap after 2^32 rounds.
struct epoch_arrival {
  static constexpr std::uint64_t idle = 0;
  static constexpr bool restores = false;
  static constexpr std::uint64_t word(std::uint32_t epoch, std::uint32_t count) {
    return arrival_word::of(epoch, count);
  }
  static constexpr bool arrived(std::uint64_t word, std::uint32_t epoch, std::uint32_t capacity) {
    return arrival_word::is(word, epoch, capacity);
  }
  static constexpr int count(std::uint64_t word) { return static_cast<int>(arrival_word::count(word)); }
};

/// Words are the count and its check; the reader restores the idle value.
struct sentinel_arrival {
  static constexpr std::uint64_t idle = ~std::uint64_t{0};
  static constexpr bool restores = true;
  static constexpr std::uint64_t word(std::uint32_t, std::uint32_t count) {
    return arrival_word::of(0, count);
  }
  static constexpr bool arrived(std::uint64_t word, std::uint32_t, std::uint32_t capacity) {
    return arrival_word::is(word, 0, capacity);
  }
  static constexpr int count(std::uint64_t word) { return static_cast<int>(arrival_word::count(word)); }
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
