#pragma once
// Router weights that are given to combine, with layout per_rank: behind dispatch and before combine, on every rank d, for every
// token t of rank s and its choices k that are here:
//   entries[s, t, k].weight = topk_weights[t, k] of s
// The rank of the experts adds up its rows, so each rank tells every rank all its weights, in words that are their own news; in
// dispatch nothing changes, which has left weights of 1, and nothing in combine.
//
//   cell               written by                                         read by
//   word, 64 bits, in  one lane of the source, once in a round, of each   one lane of the owner: wait relaxed, system
//   d's window         token that it has: store relaxed, system
//   entries            a lane of their rank's own, in this kernel         combine (K1)
//
//   bits 63 to 32: the round's last 32; 31 to 0: the weight
//
//   state of a word                                   seen by a reader in round n
//   of the round in which it was written last         not here yet: loads again
//   of round n                                        here
//
// W1: nothing is ordered by a word but the word itself, whose weight it is.
// W2: a word may be written again when its reader has acted on it: s stores those of round n behind its dispatch of n, which has
//     seen d's ids of n; d stores these when its kernels of n - 1 have ended, among them this one, whose loads have returned. So
//     one copy suffices. In the split form the same: ids are sent by dispatch_async and seen by dispatch_wait, words are
//     combine_async's. Slots have cells and rounds of their own. A graph that is replayed reads the round's number anew.
// K1: await_dependencies on both sides, as from dispatch to combine.
// Start:    all bits 0; the first round is 1. A word tells rounds apart unless it was left alone for 2^32 of them.
// Progress: a warp stores all its words before it awaits any; all blocks of a grid are on the device together. Who waits knows
//           from the ids that the source has the token, and a source tells of all its tokens, whoever is to have them.
// Absent:   nothing is sent to a rank that is absent, and nothing of it awaited.
// Checked:  checks/late_weights.cpp has the bounds and the planted bugs.
#include <bit>

#include "exec/kernel.hpp"
#include "kernels/ep/late_weights/params.hpp"
#include "kernels/ep/per_rank/round_start.hpp"

namespace baton::ep::late_weights {

using per_rank::member_round;
using per_rank::round_start;

struct sites {
  static consteval site weight() { return "combine.weights"; }
};

struct kernel {
  static constexpr kernel_bounds bounds{.max_threads = 256};

  template <exec_context X>
  static BATON_FN void run(X& x, const params& p) {
    x.launch_dependents();
    x.fetch_params(p);
    x.await_dependencies();
    const auto start = per_rank::begin_round(x, &p.epochs->dispatched, &p.epochs->absent);
    typename X::template lanes<std::int32_t> counts;
    x.each_lane([&](int r) { counts[r] = r < p.s.num_ranks ? x.read(p.token_counts + r) : 0; });
    const deal all{x, p};
    if (!send(x, p, start, all)) return;
    const member_round now = round_of(x.broadcast(start, 0));
    for (int other = 1, first = all.nth; other < p.s.num_ranks; ++other) {
      first = all.behind(first);
      const int source =
          p.s.rank + other < p.s.num_ranks ? p.s.rank + other : p.s.rank + other - p.s.num_ranks;
      // A count that cannot be, combine refuses.
      const int tokens = smaller(larger(x.broadcast(counts, source), 0), p.s.max_tokens);
      if (!now.has(source)) continue;
      for (int i = first; i * warp_lanes < tokens * p.s.top_k; i += all.warps)
        if (!receive(x, p, now, {source, i * warp_lanes, tokens * p.s.top_k})) return;
    }
  }

 private:
  /// Dispatch's, which is over.
  static BATON_FN member_round round_of(const round_start& now) {
    return {now.epoch(), now.absent & ((1u << max_near_ranks) - 1)};
  }

  /// Who takes which 32 words of a rank: dealt on from where those of the rank before end if ranks have as many tokens as this
  /// one, so that a warp has some of one rank where there are few.
  struct deal {
    int nth, warps, step;
    template <class X>
    BATON_FN deal(const X& x, const params& p)
        : nth{x.warp() * x.num_blocks() + x.block()},
          warps{x.num_warps() * x.num_blocks()},
          step{ceil_div(p.num_tokens * p.s.top_k, warp_lanes)} {
      if (step >= warps) step %= warps;
    }
    BATON_FN int behind(int at) const { return at < step ? at - step + warps : at - step; }
  };
  struct part {
    int source, first, end;  // of its choices, all tokens' one after the other
  };

  static BATON_FN std::uint64_t* word_of(const params& p, int rank, int source, int choice) {
    const std::int64_t of_source = static_cast<std::int64_t>(p.s.max_tokens) * p.s.top_k;
    return reinterpret_cast<std::uint64_t*>(p.windows.at[rank] + p.words) + source * of_source + choice;
  }
  /// A choice of a source's token.
  struct choice_place {
    int source, choice, token, k;
    BATON_FN choice_place(const params& p, int of, int nth)
        : source{of}, choice{nth}, token{p.by_top_k.quotient(nth)}, k{nth - token * p.s.top_k} {}
  };
  /// The token's choices that are here.
  template <class X>
  static BATON_FN std::uint32_t here_of(X& x, const params& p, const choice_place& at) {
    return x.read(p.choices + static_cast<std::int64_t>(at.source) * p.s.max_tokens + at.token);
  }
  template <class X>
  static BATON_FN void write_weight(X& x, const params& p, const choice_place& at, std::uint32_t here,
                                    float weight) {
    if ((here >> at.k & 1) == 0) return;
    const int nth = p.entries_follow ? at.token * p.s.top_k + per_rank::nth_entry(here, at.k) : at.choice;
    x.write(&p.entries[static_cast<std::int64_t>(at.source) * p.s.max_tokens * p.s.top_k + nth].weight,
            weight);
  }

  /// This rank's weights, to the others and to its own entries. False: the rank has given up.
  template <class X>
  static BATON_FN bool send(X& x, const params& p, const typename X::template lanes<round_start>& start,
                            const deal& all) {
    const int end = p.num_tokens * p.s.top_k;
    for (int first = all.nth * warp_lanes; first < end; first += all.warps * warp_lanes) {
      typename X::template lanes<float> weight;
      typename X::template lanes<std::uint32_t> here;
      x.each_lane([&](int lane) {
        if (first + lane >= end) return;
        here[lane] = here_of(x, p, {p, p.s.rank, first + lane});
        weight[lane] = p.topk_weights != nullptr ? x.read(p.topk_weights + first + lane) : 1.0f;
      });
      const round_start now = x.broadcast(start, 0);
      if (now.aborted()) return false;
      for (int i = 1, to = p.s.rank; i < p.s.num_ranks; ++i) {
        if (++to == p.s.num_ranks) to = 0;
        if (!round_of(now).has(to)) continue;
        x.each_lane([&](int lane) {
          if (first + lane < end)
            x.template store<order::relaxed, scope::system>(
                word_of(p, to, p.s.rank, first + lane),
                std::uint64_t{now.low} << 32 | std::bit_cast<std::uint32_t>(weight[lane]));
        });
      }
      x.each_lane([&](int lane) {
        if (first + lane < end) write_weight(x, p, {p, p.s.rank, first + lane}, here[lane], weight[lane]);
      });
    }
    return !x.broadcast(start, 0).aborted();
  }

  /// 32 choices of another rank's tokens: their words are awaited together. False: gave up.
  template <class X>
  static BATON_FN bool receive(X& x, const params& p, const member_round& now, const part& of) {
    typename X::template lanes<std::uint64_t*> words;
    typename X::template lanes<std::uint64_t> seen;
    typename X::template lanes<std::uint32_t> here;
    x.each_lane([&](int lane) {
      words[lane] = nullptr;
      if (of.first + lane >= of.end) return;
      const choice_place at{p, of.source, of.first + lane};
      here[lane] = here_of(x, p, at);
      if ((here[lane] >> at.k & 1) != 0) words[lane] = word_of(p, p.s.rank, at.source, at.choice);
    });
    const auto round = static_cast<std::uint32_t>(now.epoch);
    if (!x.template wait<order::relaxed, scope::system>(
            words,
            [round](int, std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32) == round; },
            {.where = sites::weight(),
             .peer = of.source,
             .epoch = round,
             .expected = std::uint64_t{round} << 32},
            seen))
      return false;
    x.each_lane([&](int lane) {
      if (words[lane] == nullptr) return;
      write_weight(x, p, {p, of.source, of.first + lane}, here[lane],
                   std::bit_cast<float>(static_cast<std::uint32_t>(seen[lane])));
    });
    return true;
  }
};

}  // namespace baton::ep::late_weights
