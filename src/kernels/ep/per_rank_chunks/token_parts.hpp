#pragma once
// Parts of tokens' sums, as combine's kernels go through them: what dispatch left of a part's token, and other ranks' sums of it.
//
// S1: a part's sums happen before its arrival word is seen: all stores, then a lane that knows of them publishes (E1 of
//     protocol/arrival.hpp), for each of the parts that are told of together one.
#include "base/bits.hpp"
#include "kernels/ep/per_rank_chunks/token_sum.hpp"
#include "kernels/ep/per_rank_chunks/wanted_tokens.hpp"
#include "protocol/arrival.hpp"

namespace baton::ep::per_rank_chunks {

struct combine_sites {
  static consteval site sum() { return "combine.sum"; }
  static consteval site forward() { return "combine.forward"; }
  static consteval site row() { return "combine.damaged_row"; }
  static consteval site count() { return "combine.damaged_count"; }
};

struct sum_part {
  int source, token, part;  // token < 0: none is left
};

/// A part, and what dispatch left of its token: lane k has choice k's.
template <class X>
struct known_part {
  sum_part at;
  typename X::template lanes<std::uint32_t> choices;
  typename X::template lanes<std::uint32_t> ranks;  // whose sums come here
  typename X::template lanes<entry> entries;
};

/// The rank that is `turn` behind this one.
template <class P>
BATON_FN int turned(const P& p, int turn) {
  const int rank = p.s.rank + turn;
  return rank < p.s.num_ranks ? rank : rank - p.s.num_ranks;
}

/// Of the next round: none is taken (D2).
template <class X, class P>
BATON_FN void clear_taken_by_dispatch(X& x, const P& p) {
  if (x.block() == 0 && x.warp() == 0) x.elect([&] { x.write(&p.taken->chunks_to_send, 0u); });
}

/// Tokens of all ranks, lane r those of rank r. False: a number that cannot be.
template <class X, class P>
BATON_FN bool read_counts(X& x, const P& p, typename X::template lanes<int>& tokens) {
  typename X::template lanes<bool> sound;
  x.each_lane([&](int r) {
    tokens[r] = r < p.s.num_ranks ? x.read(p.token_counts + r) : 0;
    sound[r] = tokens[r] >= 0 && tokens[r] <= p.s.max_tokens;
  });
  const std::uint32_t all = x.ballot(sound);
  if (all == 0xffffffffu) return true;
  const int source = lowest_bit(~all), found = x.broadcast(tokens, source);
  x.elect([&] {
    x.refuse({.where = combine_sites::count(),
              .peer = source,
              .expected = static_cast<std::uint64_t>(p.s.max_tokens)},
             static_cast<std::uint32_t>(found));
  });
  return false;
}

/// The ranks that own experts of one of this rank's tokens, whatever is said of others that there are not.
template <class X, class P>
BATON_FN std::uint32_t ranks_of(X& x, const P& p, int token) {
  const std::uint32_t all = (1u << (p.s.num_ranks - 1) << 1) - 1;
  return x.read(p.rank_sets + token) & all;
}

/// One lane: the ranks whose sums of a token come to this one, and this one, if it has a part of it.
template <class X, class P>
BATON_FN std::uint32_t ranks_of_sums(X& x, const P& p, const sum_part& at) {
  if constexpr (P::has_two_levels) {
    if (forwards_for(p, at.source)) return who_wants(x, p, at.source, at.token);
    return at.source == p.s.rank ? reached(p, ranks_of(x, p, at.token)) : 0;
  } else {
    return at.source == p.s.rank ? ranks_of(x, p, at.token) : 0;
  }
}

/// Loads that nobody waits for yet. What is known of choices that are not here is of other rounds, and harmless.
template <class X, class P>
BATON_FN known_part<X> look_up(X& x, const P& p, const sum_part& at) {
  known_part<X> found{at, {}, {}, {}};
  if (at.token < 0) return found;
  const std::int64_t token = static_cast<std::int64_t>(at.source) * p.s.max_tokens + at.token;
  x.each_lane([&](int k) {
    found.choices[k] = x.read(p.choices + token);
    found.ranks[k] = ranks_of_sums(x, p, at);
    found.entries[k] = k < p.s.top_k ? x.read(p.entries + token * p.s.top_k + k) : entry{0, 0.0f};
  });
  return found;
}

/// False: one of these choices has a row that there is not.
template <class X, class P>
BATON_FN bool are_rows_here(X& x, const P& p, const known_part<X>& part, std::uint32_t choices) {
  typename X::template lanes<bool> sound;
  x.each_lane([&](int k) {
    const int row = part.entries[k].row;
    sound[k] = (choices >> k & 1) == 0 || (row >= 0 && row < p.window.max_rows);
  });
  const std::uint32_t all_sound = x.ballot(sound);
  if (all_sound == 0xffffffffu) return true;
  const int row = x.broadcast(part.entries, lowest_bit(~all_sound)).row;
  x.elect([&] {
    x.refuse({.where = combine_sites::row(),
              .peer = part.at.source,
              .expected = static_cast<std::uint64_t>(p.window.max_rows)},
             static_cast<std::uint32_t>(row));
  });
  return false;
}

/// The word that tells rank `at.source`, or who takes this rank's sums for it, of a part.
template <class P>
BATON_FN std::uint64_t* word_of_sum(const P& p, const sum_part& at) {
  return reinterpret_cast<std::uint64_t*>(
      p.window_of(taker_of_sum(p, at.source)) +
      p.window.sum_word_at(p.s, cell_of_sum(p, at.source, p.s.rank), at.token, at.part));
}

/// Who has sums of forwarders to wait for lets these report first.
template <class P>
BATON_FN std::uint32_t patience_for(const P& p, std::uint32_t ranks) {
  if constexpr (P::has_two_levels)
    return (ranks & ~p.far.near_ranks()) != 0 ? 2 : 1;
  else
    return 1;
}

/// Until the sums by `ranks` of a part of a token that come to this rank are here (S1). False: gave up.
template <class X, class P>
BATON_FN bool await_sums(X& x, const P& p, std::uint64_t epoch, const sum_part& at, std::uint32_t ranks) {
  std::byte* window = p.window_of(p.s.rank);
  typename X::template lanes<std::uint64_t*> words;
  typename X::template lanes<std::uint64_t> seen;
  x.each_lane([&](int r) {
    const bool comes = (ranks >> r & 1) != 0;
    words[r] = comes
                   ? reinterpret_cast<std::uint64_t*>(
                         window + p.window.sum_word_at(p.s, cell_of_sum(p, at.source, r), at.token, at.part))
                   : nullptr;
  });
  const auto round = static_cast<std::uint32_t>(epoch);
  const std::uint64_t arrived = epoch_arrival::word(round, 1);
  return x.template wait<order::acquire, scope::system>(
      words, [arrived](int, std::uint64_t word) { return word == arrived; },
      {.where = forwards_for(p, at.source) ? combine_sites::forward() : combine_sites::sum(),
       .peer = 0,
       .epoch = round,
       .expected = arrived,
       .patience = patience_for(p, ranks),
       .peer_modulus = p.s.num_ranks},
      seen);
}

}  // namespace baton::ep::per_rank_chunks
