#pragma once
// Data of few bytes that is its own news, as lines are, in what PTX promises to be seen whole: words of 64 bits, half of them the
// round. Twice the bytes, no fence.
//
//   cell                        written by                            read by
//   words, 64 bits, in the      one warp of the sender, each at most  one warp of the owner, in that round: wait relaxed, system
//   owner's window              once a round: store relaxed, system
//
//   bits 63 to 32: those of the round's flag (line.hpp) that come last; 31 to 0: data
//
//   state of a word         seen by a reader in round n
//   of a round before       not here yet: loads again
//   of round n              here
//   anything else           never ends a wait; reported as a stuck record with the word as seen
//
// W1: nothing is ordered by a word but the word itself.
// W2: it may be written again when its reader has acted on it: a load has returned whose value was used.
// Start:    all bytes 0; the first round is 1. There are as many rounds as 32 bits count: later ones take another way.
// Progress: as in line.hpp.
#include "exec/word_wait.hpp"
#include "protocol/line.hpp"

namespace baton {

/// Whether the round is among those that halves of words tell apart.
constexpr bool has_half_words(std::uint64_t epoch) {
  return epoch >> 32 == 0;
}

constexpr std::uint64_t half_word(std::uint64_t epoch, std::uint32_t data) {
  return line_flag(epoch) << 32 | data;
}

constexpr int words_of_vec = 4;  // a vec16 in halves of words
constexpr int half_word_access_bytes = words_of_vec * warp_lanes * static_cast<int>(sizeof(std::uint64_t));

BATON_FN std::uint64_t* half_word_at(std::byte* first, int access, int nth, int lane) {
  return reinterpret_cast<std::uint64_t*>(first + access * half_word_access_bytes) + nth * warp_lanes + lane;
}

/// The warp: those words of v that count, `counts(access, lane)` of each lane's four.
template <int n, exec_context X, class Counts>
BATON_FN void store_half_words(X& x, std::byte* to, const typename X::template lanes<vec16> (&v)[n],
                               std::uint64_t epoch, Counts counts) {
  x.each_lane([&](int lane) {
    BATON_UNROLL
    for (int i = 0; i < n; ++i) {
      BATON_UNROLL
      for (int j = 0; j < words_of_vec; ++j)
        if (j < counts(i, lane))
          x.template store<order::relaxed, scope::system>(half_word_at(to, i, j, lane),
                                                          half_word(epoch, v[i][lane].word[j]));
    }
  });
}

/// The warp: the same words, once they are here; 0 in the others' places. False: gave up.
template <int n, exec_context X, class Counts>
BATON_FN bool await_half_words(X& x, std::byte* from, std::uint64_t epoch, Counts counts, wait_site where,
                               typename X::template lanes<vec16> (&v)[n]) {
  typename X::template lanes<std::uint64_t> seen[n * words_of_vec];
  const auto word_at = [=](int i, int lane) -> std::uint64_t* {
    const int access = i / words_of_vec, nth = i % words_of_vec;
    return nth < counts(access, lane) ? half_word_at(from, access, nth, lane) : nullptr;
  };
  where.epoch = static_cast<std::uint32_t>(epoch);
  where.expected = half_word(epoch, 0);
  const auto arrived = [=](int, std::uint64_t word) { return word >> 32 == half_word(epoch, 0) >> 32; };
  if (!wait_words(x, word_at, arrived, where, seen)) return false;
  x.each_lane([&](int lane) {
    BATON_UNROLL
    for (int i = 0; i < n * words_of_vec; ++i)
      v[i / words_of_vec][lane].word[i % words_of_vec] = static_cast<std::uint32_t>(seen[i][lane]);
  });
  return true;
}

}  // namespace baton
