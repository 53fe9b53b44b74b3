#pragma once
// Words that are their own news: 64 bits, stored and loaded at once as PTX promises of 64 bits, hold 44 bits of data and a
// check over these and the round. No fence: whoever sees the word sees its data.
//
//   cell               written by                                         read by
//   word, 64 bits, in  one lane of the sender in every round in which     one lane of the owner: wait relaxed, system
//   the owner's window the cell is used: store relaxed, system
//
//   bits 63 to 44: check; 43 to 0: data
//
//   state of a word                              seen by a reader in round n
//   of the round in which it was written last    not here yet: loads again
//   of round n                                   here
//   anything else                                never ends a wait; reported as a stuck record with the word as seen
//
// W1: nothing is ordered by a word but the word itself.
// W2: it may be written again when its reader has acted on it: a load has returned whose value was used.
// Start:    all bits 0, which is no word of the first two rounds.
// Progress: as in released_flag.hpp.
// A word with one flipped bit is none of its round. A cell is written again after two rounds at the latest, so that the last
// 32 bits of a round's number tell it from what may be there.
#include <cstdint>

#include "base/macros.hpp"

namespace baton::id_word {

inline constexpr int data_bits = 44;
inline constexpr std::uint64_t data_mask = (std::uint64_t{1} << data_bits) - 1;

/// Factors are odd (those of xxHash32): another round, or another bit of data, moves the sum by at least 2^12, either way
/// round, so that its upper 20 bits change; a test tries them all.
constexpr std::uint64_t of(std::uint64_t epoch, std::uint64_t data) {
  const std::uint32_t sum = static_cast<std::uint32_t>(epoch) * 0x9e3779b1u +
                            static_cast<std::uint32_t>(data) * 0x85ebca77u +
                            static_cast<std::uint32_t>(data >> 32) * 0xc2b2ae3du + 0x27d4eb2fu;
  return static_cast<std::uint64_t>(sum >> 12) << data_bits | data;
}
constexpr std::uint64_t data(std::uint64_t word) {
  return word & data_mask;
}
constexpr bool is(std::uint64_t word, std::uint64_t epoch) {
  return word == of(epoch, data(word));
}
static_assert(!is(0, 1) && !is(0, 2));

}  // namespace baton::id_word
