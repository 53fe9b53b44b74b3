#pragma once
// Ids first: every rank sends all its ids to every rank before its tokens, in lines, in every round: as many lines as
// ids may be, also if there are fewer or none, so that nobody has to ask how many will come.
// From them each rank derives which tokens will come, from whom, and which rows they get, while these are on their way.
//
//   rank s                                        rank d
//     store_lines(ids of s)              -- L1 ->   await_lines(ids of s); derives counts, rows, who sends what
//     store_lines(tokens of s for d)     -- L1 ->   await_lines(those that d's experts want, and no others)
//
// Why lines may be used again (L2 of protocol/line.hpp):
//   - s stores its ids of round m when its kernels of round m - 1 have ended, so that all its loads of that round have
//     returned. d's dispatch of round n - 1 ended after it saw s's ids of n - 1, so when d begins round n, s has finished
//     n - 2: what d overwrites at s with the parity of n was last used in n - 2. Two copies of ids and tokens suffice.
//   - d's combine of round n runs after d's dispatch of n, which saw s's ids of n: s has finished n - 1. One copy of sums
//     suffices.
//
// `P` are the parameters of a dispatch whose ids travel so: here, and in per_rank_chunks.
#include <bit>

#include "kernels/ep/expert_ids.hpp"
#include "kernels/ep/per_rank/params.hpp"
#include "kernels/ep/per_rank/round_start.hpp"
#include "kernels/ep/per_rank/row_index.hpp"

namespace baton::ep::per_rank {

struct id_sites {
  static consteval site ids() { return "dispatch.ids"; }
  static consteval site damaged() { return "dispatch.damaged_ids"; }
};

/// A lane's part of the check over a line: a flipped bit of ids, count or round changes the sum over its lanes, as all
/// factors are odd.
constexpr std::uint32_t id_check(const vec16& v) {
  return v.word[0] + 3 * v.word[1] + 5 * v.word[2] + 7 * v.word[3];
}

/// The sum over the lanes of each line.
template <class X>
BATON_FN void sum_of_line(X& x, typename X::template lanes<std::uint32_t>& part) {
  for (int mask = 1; mask < lanes_of_line; mask *= 2) {
    const auto other = x.shuffle_xor(part, mask);
    x.each_lane([&](int lane) { part[lane] += other[lane]; });
  }
}

/// What the check sums up for a line's last place: everything there but the check itself.
BATON_FN vec16 checked_tail(std::uint32_t count, std::uint64_t epoch) {
  return {{count, 0, static_cast<std::uint32_t>(epoch), static_cast<std::uint32_t>(epoch >> 32)}};
}

/// One warp: the ranks that have an expert among ids, one a lane: bit r.
template <class X, class P>
BATON_FN std::uint32_t ranks_of(X& x, const P& p, const typename X::template lanes<std::int32_t>& id) {
  std::uint32_t set = 0;
  for (int r = 0; r < p.num_ranks(); ++r) {
    typename X::template lanes<bool> here;
    x.each_lane([&](int k) { here[k] = id[k] >= p.first_expert(r) && id[k] < p.first_expert(r + 1); });
    if (x.ballot(here) != 0) set |= 1u << r;
  }
  return set;
}

/// Eight ids, as they travel, and whether there is one that cannot be.
struct packed_ids {
  vec16 words;
  bool bad;
};

template <int n>
struct some_ids {
  std::int32_t id[n];
};

/// One lane: n ids from index `first` on, of which `here` exist. All loads are in flight before the first is used.
template <int n, class Id, class X>
BATON_FN some_ids<n> load_some(X& x, const Id* ids, int first, int here) {
  const Id* from = ids + first;
  struct several {
    Id id[sizeof(vec16) / sizeof(Id)];
  };
  constexpr int each = sizeof(vec16) / sizeof(Id), vectors = n / each;
  some_ids<n> in;
  if (here >= n && reinterpret_cast<std::uintptr_t>(from) % sizeof(vec16) == 0) {
    several all[vectors];
    BATON_UNROLL
    for (int i = 0; i < vectors; ++i)
      all[i] = std::bit_cast<several>(x.read(reinterpret_cast<const vec16*>(from) + i));
    BATON_UNROLL
    for (int i = 0; i < n; ++i) in.id[i] = narrowed(all[i / each].id[i % each]);
    return in;
  }
  BATON_UNROLL
  for (int i = 0; i < n; ++i) in.id[i] = -1;
  if (here <= 0) return in;
  BATON_UNROLL
  for (int i = 0; i < n; ++i)
    if (i < here) in.id[i] = read_id(x, from, i);
  return in;
}
template <int n, class X>
BATON_FN some_ids<n> load_some(X& x, const any_ids& ids, int first, int here) {
  some_ids<n> in =
      with_width(ids.given, [&](const auto* of_width) { return load_some<n>(x, of_width, first, here); });
  if (ids.map.replica_counts == nullptr) return in;
  int token[n];
  BATON_UNROLL
  for (int i = 0; i < n; ++i) token[i] = ids.by_top_k.quotient(first + i);
  take_replicas(x, ids, token, in.id);
  return in;
}

/// Whether there is an id that cannot be.
template <int n, class P>
BATON_FN bool has_bad_id(const P& p, const some_ids<n>& in) {
  bool bad = false;
  BATON_UNROLL
  for (int i = 0; i < n; ++i) {
    const auto number = static_cast<std::uint32_t>(in.id[i]);
    bad |= number >= static_cast<std::uint32_t>(p.s.num_experts) && number != ~0u;
  }
  return bad;
}

/// One lane: ids from index `first` on.
template <class X, class P>
BATON_FN packed_ids pack_ids(X& x, const P& p, int first) {
  const auto in = load_some<ids_of_chunk>(x, p.ids(), first, p.num_tokens * p.s.top_k - first);
  packed_ids out{{}, has_bad_id(p, in)};
  BATON_UNROLL
  for (int i = 0; i < ids_of_chunk; ++i)
    out.words.word[i / 2] |= smaller(static_cast<std::uint32_t>(in.id[i]), no_id) << (16 * (i % 2));
  return out;
}

/// One lane: the id at index `at`, if it cannot be, for check().
template <class X, class P>
BATON_FN void report_id(X& x, const P& p, int at) {
  if (at >= p.num_tokens * p.s.top_k) return;
  const std::int32_t id = read_id(x, p.ids(), at);
  const bool valid = static_cast<std::uint32_t>(id) < static_cast<std::uint32_t>(p.s.num_experts);
  if (!valid && id != -1) report_bad_id(x, p.errors, at, given_id(x, p.ids(), at));
}

/// One warp: of n ids of each lane that is `bad`, from index first_of(lane) on, those that cannot be. Lanes go through theirs in
/// step: a loop of each lane's own would part the warp for all that follows, as far as the compiler knows.
template <int n, class X, class P, class First>
BATON_FN void report_ids(X& x, const P& p, const typename X::template lanes<bool>& bad, First first_of) {
  if (x.ballot(bad) == 0) return;
  BATON_ROLLED
  for (int i = 0; i < n; ++i)
    x.each_lane([&](int lane) {
      if (bad[lane]) report_id(x, p, first_of(lane) + i);
    });
}

/// The first id of a lane's chunk; the lanes with flags have none.
constexpr int first_id_of(int access, int lane) {
  return access * ids_of_access + lane / lanes_of_line * ids_of_line + lane % lanes_of_line * ids_of_chunk;
}

/// A warp's ids of one access.
template <class X>
struct outgoing_ids {
  typename X::template lanes<packed_ids> packed;
  int access;
};

/// One warp: as far as they are known before the round is; its loads are on their way together with its number.
template <class X, class P>
BATON_FN outgoing_ids<X> load_ids(X& x, const P& p, int access) {
  outgoing_ids<X> ids{{}, access};
  x.each_lane([&](int lane) {
    if (!holds_flag(lane)) ids.packed[lane] = pack_ids(x, p, first_id_of(access, lane));
  });
  return ids;
}

/// One warp: these to all ranks that are there.
template <class X, class P>
BATON_FN void store_ids(X& x, const P& p, const member_round& now, const outgoing_ids<X>& ids) {
  const std::uint64_t epoch = now.epoch;
  typename X::template lanes<vec16> v;
  typename X::template lanes<std::uint32_t> check;
  x.each_lane([&](int lane) {
    v[lane] = holds_flag(lane) ? checked_tail(static_cast<std::uint32_t>(p.num_tokens), epoch)
                               : ids.packed[lane].words;
    check[lane] = id_check(v[lane]);
  });
  sum_of_line(x, check);
  x.each_lane([&](int lane) {
    if (holds_flag(lane)) v[lane] = with_flag(v[lane].word[0], check[lane], line_flag(epoch));
  });
  for (int i = 1, to = p.s.rank; i <= p.num_ranks(); ++i) {
    if (++to == p.num_ranks()) to = 0;
    if (!now.has(to)) continue;
    x.store_lines(p.window_of(to) + p.window.ids_at(p.s, epoch, p.s.rank, ids.access), v);
  }
  typename X::template lanes<bool> bad;
  x.each_lane([&](int lane) { bad[lane] = ids.packed[lane].bad; });
  report_ids<ids_of_chunk>(x, p, bad, [&](int lane) { return first_id_of(ids.access, lane); });
}

/// The source's tokens, as the first line says.
template <class X>
BATON_FN int tokens_of(X& x, const typename X::template lanes<vec16>& v) {
  typename X::template lanes<int> told;
  x.each_lane([&](int lane) { told[lane] = static_cast<int>(v[lane].word[0]); });
  return x.broadcast(told, lanes_of_line - 1);
}

/// Where ids come from: the rank, and its ids before them.
struct id_place {
  int source, before;
};

/// One warp: ids that have arrived, into the index; the source's tokens. What they say is checked later: sound_ids.
template <class X, class P>
BATON_FN int note_ids(X& x, const P& p, const row_index<P>& rows, const id_place& from,
                      const typename X::template lanes<vec16>& v) {
  const int tokens = tokens_of(x, v);
  x.each_lane([&](int lane) {
    const int first = from.before + first_id_of(0, lane), end = tokens * p.s.top_k;
    if (holds_flag(lane) || tokens < 0 || tokens > p.s.max_tokens || first >= end) return;
    rows.note(x, lane, from.source, first, end, v[lane]);
  });
  if (from.before == 0)
    x.elect([&] { x.write(rows.counts + from.source, smaller(larger(tokens, 0), p.s.max_tokens)); });
  return tokens;
}

/// One warp: whether lines of ids are as they were sent; refuses them otherwise.
template <class X, class P>
BATON_FN bool sound_ids(X& x, const P& p, std::uint64_t epoch, int source,
                        const typename X::template lanes<vec16>& v) {
  const int tokens = tokens_of(x, v);
  typename X::template lanes<std::uint32_t> check;
  x.each_lane([&](int lane) {
    check[lane] = id_check(holds_flag(lane) ? checked_tail(v[lane].word[0], epoch) : v[lane]);
  });
  sum_of_line(x, check);
  typename X::template lanes<bool> sound;
  x.each_lane([&](int lane) {
    sound[lane] =
        !holds_flag(lane) || (check[lane] == v[lane].word[1] && static_cast<int>(v[lane].word[0]) == tokens);
  });
  if (x.ballot(sound) == 0xffffffffu && tokens >= 0 && tokens <= p.s.max_tokens) return true;
  x.elect([&] {
    x.refuse({.where = id_sites::damaged(), .peer = source, .epoch = static_cast<std::uint32_t>(epoch)},
             static_cast<std::uint64_t>(tokens));
  });
  x.sync_warp();  // or the compiler takes what this returns for something that lanes differ in
  return false;
}

}  // namespace baton::ep::per_rank
