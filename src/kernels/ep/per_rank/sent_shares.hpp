#pragma once
// Which units of other ranks' tokens a warp of combine sends, where each has a share.
#include "base/bits.hpp"
#include "kernels/ep/per_rank/params.hpp"

namespace baton::ep::per_rank {

/// Of a source's units, those that are `nth` modulo `warps`.
struct sent_share {
  int source, nth, warps;
};

/// A sender's shares of the other's units, and, where it does not receive, of this rank's.
template <class P>
struct shares_of_pair {
  template <class X>
  BATON_FN shares_of_pair(const X&, const P&) {}
  template <class X>
  BATON_FN sent_share first(const X& x, const P& p) const {
    return {1 - p.s.rank, x.warp() * x.num_blocks() + x.block(), p.senders * x.num_blocks()};
  }
  template <class X, class F>
  BATON_FN void each(const X& x, const P& p, F f) const {
    const int nth = x.warp() * x.num_blocks() + x.block(), warps = p.senders * x.num_blocks();
    for (int i = 1, to = p.s.rank; i <= (p.receives ? 1 : 2); ++i) {
      if (++to == 2) to = 0;
      if (!f(sent_share{to, nth, warps})) return;
    }
  }
};

/// The same among more ranks. Each rank's units are dealt on from where those of the one before would end if ranks had as many
/// tokens as this one: where they have few, a warp has a unit of one of them. It begins with that of which it has the first.
/// Without branches on what a warp has, behind which the compiler would take it for parted.
template <class P>
struct dealt_shares {
  int nth, warps, count, step, begins_with = 0, nth_of_first;
  template <class X>
  BATON_FN dealt_shares(const X& x, const P& p)
      : nth{x.warp() * x.num_blocks() + x.block()},
        warps{p.senders * x.num_blocks()},
        count{p.receives ? p.num_ranks() - 1 : p.num_ranks()},
        nth_of_first{nth} {
    const int units = p.num_tokens * p.window.sum_units;
    step = units < warps ? units : warps > 0 ? units % warps : 0;
    for (int other = 1, at = nth; other < count; ++other) {
      at = behind(at);
      begins_with = at < nth_of_first ? other : begins_with;
      nth_of_first = smaller(at, nth_of_first);
    }
  }
  template <class X>
  BATON_FN sent_share first(const X&, const P& p) const {
    return {to(p, begins_with), nth_of_first, warps};
  }
  /// The warp's number among the units of the rank behind that of which it has the `at`-th.
  BATON_FN int behind(int at) const { return at < step ? at - step + warps : at - step; }
  /// The rank that is the `other`-th behind this one.
  static BATON_FN int to(const P& p, int other) {
    const int rank = p.s.rank + 1 + other;
    return rank < p.num_ranks() ? rank : rank - p.num_ranks();
  }
  template <class X, class F>
  BATON_FN void each(const X&, const P& p, F f) const {
    for (int i = 0, other = begins_with, at = nth_of_first; i < count; ++i) {
      if (!f(sent_share{to(p, other), at, warps})) return;
      const bool is_last = ++other == count;
      at = is_last ? nth : behind(at);
      other = is_last ? 0 : other;
    }
  }
};

}  // namespace baton::ep::per_rank
