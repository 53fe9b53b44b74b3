#pragma once
// Ids in words that are their own news (protocol/id_word.hpp): a lane's four ids of 11 bits, in the last lane the source's
// tokens. As with lines (id_lines.hpp) every rank sends all its ids to every rank first, in every round, as many words as ids
// may be.
#include "kernels/ep/per_rank/id_lines.hpp"
#include "kernels/ep/per_rank/unit.hpp"
#include "protocol/id_word.hpp"

namespace baton::ep::per_rank {

static_assert(ids_of_word * word_id_bits <= id_word::data_bits);

/// Four ids as rows are found by.
struct alignas(8) id_quad {
  std::uint32_t word[2];
};

/// A warp's ids of one access, before the round is known.
template <class X>
struct outgoing_words {
  typename X::template lanes<std::uint64_t> data;
  typename X::template lanes<bool> bad;
  int access;
};

constexpr int first_id_of_word(int access, int lane) {
  return access * ids_of_word_access + lane * ids_of_word;
}
/// Whether the lane has a word: there is none for ids that no rank may have.
template <class P>
BATON_FN bool has_word(const P& p, int access, int lane) {
  return lane == count_lane || first_id_of_word(access, lane) < p.s.max_tokens * p.s.top_k;
}

/// One warp: its loads are on their way together with the round's number.
template <class X, class P>
BATON_FN outgoing_words<X> load_id_words(X& x, const P& p, int access) {
  outgoing_words<X> out{{}, {}, access};
  x.each_lane([&](int lane) {
    out.bad[lane] = false;
    out.data[lane] = static_cast<std::uint32_t>(p.num_tokens);
    if (lane == count_lane) return;
    const int first = first_id_of_word(access, lane);
    const auto in = load_some<ids_of_word>(x, p.ids(), first, p.num_tokens * p.s.top_k - first);
    out.bad[lane] = has_bad_id(p, in);
    std::uint64_t data = 0;
    BATON_UNROLL
    for (int i = 0; i < ids_of_word; ++i)
      data |= std::uint64_t{smaller(static_cast<std::uint32_t>(in.id[i]), no_word_id)} << (word_id_bits * i);
    out.data[lane] = data;
  });
  return out;
}

/// One warp: these to all ranks that are there.
template <class X, class P>
BATON_FN void store_id_words(X& x, const P& p, const member_round& now, const outgoing_words<X>& ids) {
  const std::uint64_t epoch = now.epoch;
  for (int i = 1, to = p.s.rank; i <= p.num_ranks(); ++i) {
    if (++to == p.num_ranks()) to = 0;
    if (!now.has(to)) continue;
    auto* words = reinterpret_cast<std::uint64_t*>(p.windows.at[to] +
                                                   p.window.ids_at(p.s, epoch, p.s.rank, ids.access));
    x.each_lane([&](int lane) {
      if (has_word(p, ids.access, lane))
        x.template store<order::relaxed, scope::system>(words + lane, id_word::of(epoch, ids.data[lane]));
    });
  }
  report_ids<ids_of_word>(x, p, ids.bad, [&](int lane) { return first_id_of_word(ids.access, lane); });
}

/// One warp. False: gave up.
template <class X, class P>
BATON_FN bool await_id_words(X& x, const P& p, std::uint64_t epoch, const id_access& at,
                             typename X::template lanes<std::uint64_t>& seen) {
  auto* from = reinterpret_cast<std::uint64_t*>(p.windows.at[p.s.rank] +
                                                p.window.ids_at(p.s, epoch, at.source, at.access));
  typename X::template lanes<std::uint64_t*> words;
  x.each_lane([&](int lane) { words[lane] = has_word(p, at.access, lane) ? from + lane : nullptr; });
  return x.template wait<order::relaxed, scope::system>(
      words, [=](int, std::uint64_t word) { return id_word::is(word, epoch); },
      {.where = id_sites::ids(),
       .peer = at.source,
       .epoch = static_cast<std::uint32_t>(epoch),
       .expected = id_word::of(epoch, 0)},
      seen);
}

/// The source's tokens, as the last lane's word says.
template <class X>
BATON_FN int tokens_of_words(X& x, const typename X::template lanes<std::uint64_t>& seen) {
  return static_cast<int>(static_cast<std::uint32_t>(id_word::data(x.broadcast(seen, count_lane))));
}

/// One warp: ids that have arrived, into the index. What they say is checked later.
template <class X, class P>
BATON_FN void note_id_words(X& x, const P& p, const row_index<P>& rows, const id_access& at,
                            const typename X::template lanes<std::uint64_t>& seen) {
  const int tokens = smaller(larger(tokens_of_words(x, seen), 0), p.s.max_tokens);
  x.each_lane([&](int lane) {
    const int first = first_id_of_word(at.access, lane), end = tokens * p.s.top_k;
    if (lane == count_lane || first >= end) return;
    const auto id = [&](int i) {
      return static_cast<std::uint32_t>(seen[lane] >> (word_id_bits * i)) & no_word_id;
    };
    rows.note(x, lane, at.source, first, end, id_quad{{id(0) | id(1) << 16, id(2) | id(3) << 16}});
  });
  if (at.access == 0) x.elect([&] { x.write(rows.counts + at.source, tokens); });
}

/// One warp: whether the source may have as many tokens; refuses it otherwise.
template <class X, class P>
BATON_FN bool sound_id_words(X& x, const P& p, std::uint64_t epoch, int source,
                             const typename X::template lanes<std::uint64_t>& seen) {
  const int tokens = tokens_of_words(x, seen);
  if (tokens >= 0 && tokens <= p.s.max_tokens) return true;
  x.elect([&] {
    x.refuse({.where = id_sites::damaged(), .peer = source, .epoch = static_cast<std::uint32_t>(epoch)},
             static_cast<std::uint64_t>(tokens));
  });
  x.sync_warp();  // as in sound_ids
  return false;
}

}  // namespace baton::ep::per_rank
