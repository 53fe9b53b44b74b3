#pragma once
// Lines as in line.hpp, but read by what PTX promises, which is words of 64 bits that are seen whole: no word of a line that
// was stored is 0, and who has read a line clears it. No fence between data and its news, and no byte more than lines have.
//
//   cell                       written by                              read by
//   words of a line, 64 bits,  one warp of the sender, each at most    one warp of the owner: wait relaxed, system; which then
//   in the owner's window      once a round: store relaxed, system     clears them: store relaxed, system
//
//   word of a line      holds
//   the last            the complement of the round's flag (line.hpp)
//   the others          the complement of data
//
//   state of a word                 seen by a reader in round n
//   0                               not here yet: loads again
//   the last: of round n            here
//   the last: anything else         never ends a wait; reported as a stuck record with the word as seen
//   another: anything else          here
//
// W1: nothing is ordered by a word but the word itself.
// W2: it may be written again when its reader's clearing happens before that, which takes a release: whoever uses such lines
//     says which one.
// Start:    all bytes 0.
// Progress: as in line.hpp. Each word that is stored is awaited, once, or it would be there for the next round.
// Data of 64 ones arrives with the highest of them 0: in bf16, e4m3 and fp32 such words are NaN, and stay so.
// Damage:   data carries no check, as in lines. What a flipped bit made of a 0 is overwritten when data comes, or, if its reader
//     was faster, taken for data, and the data for that of a round after. Who looks at all of a line's words until all are here,
//     as line_gpu.cuh does, sees that only where a line's words come one after the other. A word that a flipped bit made 0 is
//     waited for.
//
// That a value which means "not here" is put back by the reader is what TensorRT-LLM's one-shot all-reduce does ("Lamport"); the
// round's flag is there for whom a store or a clearing got lost.
#include "exec/word_pair.hpp"
#include "protocol/line.hpp"

namespace baton {

/// As a word travels: never 0.
constexpr std::uint64_t as_cleared_word(std::uint64_t data) {
  const std::uint64_t word = ~data;
  return word != 0 ? word : std::uint64_t{1} << 63;
}

/// As a line's last word travels.
constexpr std::uint64_t cleared_line_flag(std::uint64_t epoch) {
  return as_cleared_word(line_flag(epoch));
}

BATON_FN word_pair* pair_of_lane(std::byte* first, int access, int lane) {
  return reinterpret_cast<word_pair*>(first + access * line_access_bytes) + lane;
}

/// The warp: 4 n lines with the round's flags, of each lane's 16 bytes those that count: `counts(access, lane)`.
template <int n, exec_context X, class Counts>
BATON_FN void store_cleared_lines(X& x, std::byte* to, const typename X::template lanes<vec16> (&v)[n],
                                  Counts counts) {
  BATON_UNROLL
  for (int i = 0; i < n; ++i) {
    typename X::template lanes<word_pair> pair;
    x.each_lane([&](int lane) {
      const std::uint32_t(&w)[4] = v[i][lane].word;
      pair[lane] = {{as_cleared_word(std::uint64_t{w[1]} << 32 | w[0]),
                     as_cleared_word(std::uint64_t{w[3]} << 32 | w[2])}};
    });
    const auto at = [=](int lane) { return counts(i, lane) ? pair_of_lane(to, i, lane) : nullptr; };
    store_pairs(x, at, pair);
  }
}

/// The warp: the same, once they are here, and cleared where they were; 0 in the others' places. False: gave up.
template <int n, exec_context X, class Counts>
BATON_FN bool take_cleared_lines(X& x, std::byte* from, std::uint64_t epoch, Counts counts, wait_site where,
                                 typename X::template lanes<vec16> (&v)[n]) {
  const std::uint64_t flag = cleared_line_flag(epoch);
  where.epoch = static_cast<std::uint32_t>(epoch);
  where.expected = flag;
  const auto at = [=](int i, int lane) { return counts(i, lane) ? pair_of_lane(from, i, lane) : nullptr; };
  const auto arrived = [=](int lane, int nth, std::uint64_t word) {
    return nth == 1 && holds_flag(lane) ? word == flag : word != 0;
  };
  typename X::template lanes<word_pair> seen[n];
  if (!wait_pairs(x, at, arrived, where, seen)) return false;
  BATON_UNROLL
  for (int i = 0; i < n; ++i) {
    const auto at_once = [=](int lane) { return at(i, lane); };
    store_pairs(x, at_once, typename X::template lanes<word_pair>{});
    x.each_lane([&](int lane) {
      const bool is_here = counts(i, lane);
      BATON_UNROLL
      for (int j = 0; j < 4; ++j) {
        const auto half = static_cast<std::uint32_t>(seen[i][lane].word[j / 2] >> (32 * (j % 2)));
        v[i][lane].word[j] = is_here ? ~half : 0;
      }
    });
  }
  return true;
}

}  // namespace baton
