#pragma once
// combine, layout per_rank, for many tokens: on every rank d, for every token t of rank s that has choices here,
//   partial(s, t, :) = sum over these k, ascending, of weight(s, t, k) * expert_output[row(s, t, k), :]       in fp32
// goes to s as one row of bf16, or of e4m3 with scales (this rank's own stay fp32); and there, ranks ascending:
//   out[t, :] = sum over d of partial_d(t, :)                                                                 in fp32
// and last the token's row of shared experts, if there are some. The same bits as per_rank/combine.hpp.
//
//   role      warps       does
//   send      senders     sum up parts of other ranks' tokens, store the sums there, publish each; then receive
//   forward   senders     with two levels (two_levels.hpp): await the sums of this rank's group of a part of another group's
//                         token, add them to this rank's rows, put the sum to the token's rank, tell it; then receive
//   receive   all         await the other ranks' sums of a part of this rank's tokens; add them to this rank's rows, write
//
//   send      | rows -> sum -> peer, publish ...... | rows and others' sums -> out ......... |
//   receive   | rows and others' sums -> out ................................................ |
//
// Everything moves through registers: rows' next columns are on their way while some are summed, and what a block's next part
// needs to know while the one before is. Apart, combine_async sends, this rank's own sums to its own
// memory, and combine_wait receives.
#include "exec/kernel.hpp"
#include "kernels/ep/per_rank/round_start.hpp"
#include "kernels/ep/per_rank_chunks/fp8_part.hpp"
#include "kernels/ep/per_rank_chunks/set_sums.hpp"
#include "kernels/ep/per_rank_chunks/token_parts.hpp"

namespace baton::ep::per_rank_chunks {

/// Parts that were sent and of which nobody was told: lane i has the i-th. Up to block_roles::at_once, so that one fence is for
/// all: it lasts until the last of their stores has arrived, and with few blocks a warp waits for that as long as it sums.
template <class X>
struct untold_parts {
  int held = 0;
  typename X::template lanes<sum_part> at{};
  BATON_FN void hold(X& x, const sum_part& part) {
    x.each_lane([&](int lane) {
      if (lane == held) at[lane] = part;
    });
    ++held;
  }
};

/// `Params`: combine_params, or, where some ranks are beyond the p2p group, far_params or two_level_params of them.
template <class Output, token_format Sums, class Params>
struct combine_body {
  using params = Params;
  static constexpr kernel_bounds bounds{.max_threads = max_combine_warps * warp_lanes, .blocks_per_sm = 1};

  template <line_exec_context X>
  static BATON_FN void run(X& x, const params& p) {
    x.launch_dependents();
    const combine_plan shared = plan();
    x.block_each(params::has_two_levels ? 3 : 2, [&](int i) { x.write(shared.next(x) + i, 0u); });
    x.sync_block();
    x.await_dependencies();
    const auto start = per_rank::begin_round(x, &p.epochs->dispatched);
    deal<X> others{{shared.next(x)}, p.receives ? 1 : 0, p.s.num_ranks - (p.receives ? 1 : 0)};
    if (!read_counts(x, p, others.tokens)) return;
    for (int i = 0; i < others.sources; ++i)
      others.most = larger(others.most, x.broadcast(others.tokens, turned(p, others.turn + i)));
    const per_rank::round_start now = x.broadcast(start, 0);
    if (now.aborted()) return;
    clear_taken_by_dispatch(x, p);
    if (p.roles.takes_of_all) others.next.next_of_all = &p.taken->sums_to_send;
    untold_parts<X> untold;
    if (x.warp() < p.roles.senders && !each_part(x, p, others, [&](const known_part<X>& part) {
          return send_part(x, p, now.epoch(), part, untold);
        }))
      return;
    tell(x, p, now.epoch(), untold);
    if (!p.receives) return;
    if constexpr (params::has_two_levels)
      if (!forward_all(x, p, now.epoch(), shared.next(x) + 2, others)) return;
    deal<X> own{{shared.next(x) + 1}, 0, 1, p.num_tokens};
    if (p.roles.takes_of_all) own.next.next_of_all = &p.taken->sums_to_receive;
    x.each_lane([&](int lane) { own.tokens[lane] = p.num_tokens; });
    const bool all = each_part(
        x, p, own, [&](const known_part<X>& part) { return receive_part(x, p, now.epoch(), part); });
    if (all && x.block() == 0 && x.warp() == 0) x.elect([&] { x.write(&p.epochs->combined, now.epoch()); });
  }

 private:
  /// Where things begin, whatever there is room for.
  static BATON_FN combine_plan plan() { return combine_plan{{}, 0, params::has_two_levels}; }

  /// What warps take parts from: those of `sources` ranks, from `turn` ranks behind this one on.
  template <class X>
  struct deal {
    share next;
    int turn, sources;
    int most = 0;                              // tokens of any of the ranks
    typename X::template lanes<int> tokens{};  // lane r: of rank r
    BATON_FN int source(const params& p, int nth) const { return turned(p, turn + nth); }
  };

  /// Of the ranks that this one forwards for.
  template <class X>
  struct deal_of_forwarded : deal<X> {
    BATON_FN int source(const params& p, int nth) const { return turned(p, (nth + 1) * p.group_size()); }
  };

  /// One warp: f(part) for parts of the deal, as long as there are some and f returns true.
  template <class X, class Deal, class F>
  static BATON_FN bool each_part(X& x, const params& p, const Deal& from, F f) {
    known_part<X> now = look_up(x, p, take(x, p, from));
    while (now.at.token >= 0) {
      const known_part<X> next = look_up(x, p, take(x, p, from));
      if (p.roles.prefetches) prefetch_rows(x, p, now);
      if (!f(now)) return false;
      now = next;
    }
    return true;
  }

  template <class X, class Deal>
  static BATON_FN sum_part take(X& x, const params& p, const Deal& from) {
    for (;;) {
      const int taken = take_next(x, from.next);
      if (from.most == 0) return {0, -1, 0};
      const int of_rank = taken / from.sources, token = of_rank / p.window.sum_parts;
      if (token >= from.most) return {0, -1, 0};
      const int source = from.source(p, taken % from.sources);
      if (token < x.broadcast(from.tokens, source)) return {source, token, of_rank % p.window.sum_parts};
    }
  }

  /// Asks the L2 for the part's columns of this rank's rows, in one piece each: where few SMs load, memory serves pieces of 2 KB
  /// in turn more slowly than it could (docs/decisions/0020). Nobody waits for it.
  template <class X>
  static BATON_FN void prefetch_rows(X& x, const params& p, const known_part<X>& part) {
    const column_range columns{p.s, p.window, part.at.part};
    const int bytes = (columns.end - columns.begin) * static_cast<int>(sizeof(vec16));
    const auto* rows = reinterpret_cast<const vec16*>(p.expert_output) + columns.begin;
    const bool is_own = part.at.source == p.s.rank;  // what its choices say may be of other rounds
    x.each_lane([&](int k) {
      if (is_own && (part.ranks[k] >> p.s.rank & 1) == 0) return;
      const int row = part.entries[k].row;
      if ((part.choices[k] >> k & 1) == 0 || row < 0 || row >= p.window.max_rows) return;
      x.prefetch_bytes(rows + std::int64_t{row} * (p.s.hidden / columns_of_lane), bytes);
    });
  }

  /// False: a row that there is not.
  template <class X>
  static BATON_FN bool find_rows(X& x, const params& p, const known_part<X>& part, std::uint32_t choices,
                                 addends<X>& all) {
    all.choices = choices;
    all.rows.base = reinterpret_cast<const vec16*>(p.expert_output);
    x.each_lane([&](int k) {
      const entry& e = part.entries[k];
      all.rows.first[k] =
          static_cast<std::uint32_t>(e.row) * static_cast<std::uint32_t>(p.s.hidden / columns_of_lane);
      all.rows.weight[k] = e.weight;
    });
    return are_rows_here(x, p, part, choices);
  }

  template <class X>
  static BATON_FN bool send_part(X& x, const params& p, std::uint64_t epoch, const known_part<X>& part,
                                 untold_parts<X>& untold) {
    const std::uint32_t choices = x.broadcast(part.choices, 0);
    if (choices == 0) return true;
    addends<X> all;
    const sum_part& at = part.at;
    if (forwards_for(p, at.source) && p.receives) return true;  // added to those of its group
    if (!find_rows(x, p, part, choices, all)) return false;
    const column_range columns{p.s, p.window, at.part};
    if (at.source == p.s.rank || forwards_for(p, at.source)) {
      float* kept = own_sum(p, at);
      sum_in_order<Sums>(x, columns, all, [&](int place, const float(&sum)[columns_of_lane]) {
        for (int i = 0; i < columns_of_lane; ++i) x.write(kept + place * columns_of_lane + i, sum[i]);
      });
      return true;
    }
    std::byte* sums = place_of_sum(p, at);
    const auto tell_before = [&] {
      if (untold.held >= p.roles.at_once) tell(x, p, epoch, untold);
    };
    constexpr token_format rows_only = token_format::bf16;  // nothing of other ranks is among the addends
    sum_to<rows_only, false>(x, columns, all, tell_before, sums + before_part(p, at.part));
    if constexpr (params::goes_by_put)
      if (is_put(p, at.source)) {
        put_part(x, p, epoch, at);
        return true;
      }
    untold.hold(x, at);
    return true;
  }

  /// In the format of sums, to where they travel from: a bf16 token, or another format's part.
  template <token_format Addends, bool with_ranks, class X, class Ready>
  static BATON_FN void sum_to(X& x, const column_range& columns, const addends<X>& all, Ready ready,
                              std::byte* sums) {
    if constexpr (Sums == token_format::bf16)
      sum_up<Addends, with_ranks>(x, columns, all, ready, [&](int place, const float(&s)[columns_of_lane]) {
        x.write(reinterpret_cast<vec16*>(sums) + place,
                vec16{{pack_bf16(s[0], s[1]), pack_bf16(s[2], s[3]), pack_bf16(s[4], s[5]),
                       pack_bf16(s[6], s[7])}});
      });
    else
      sum_up<Addends, with_ranks>(x, columns, all, ready, fp8_part_writer<X>{x, columns, sums});
  }

  /// This rank's part of its own token, or of one that it forwards: where calls are apart.
  static BATON_FN float* own_sum(const params& p, const sum_part& at) {
    if constexpr (params::has_two_levels)
      if (at.source != p.s.rank) return p.groups.own_sums + p.forwarded(at.source, at.token) * p.s.hidden;
    return p.own_sums + static_cast<std::int64_t>(at.token) * p.s.hidden;
  }

  /// A warp that sends, or any where none does: what this rank's group made of tokens beyond it.
  template <class X>
  static BATON_FN bool forward_all(X& x, const params& p, std::uint64_t epoch, std::uint32_t* next,
                                   const deal<X>& others) {
    if (p.roles.senders > 0 && x.warp() >= p.roles.senders) return true;
    deal_of_forwarded<X> forwarded{
        {{next}, 0, p.s.num_ranks / p.group_size() - 1, others.most, others.tokens}};
    return each_part(x, p, forwarded,
                     [&](const known_part<X>& part) { return forward_part(x, p, epoch, part); });
  }

  /// The sums of this rank's group, in order, to the source (F2, S1).
  template <class X>
  static BATON_FN bool forward_part(X& x, const params& p, std::uint64_t epoch, const known_part<X>& part) {
    if (x.broadcast(part.ranks, 0) == 0) return true;
    addends<X> all;
    if (!await_addends(x, p, epoch, part, all)) return false;
    const sum_part& at = part.at;
    const column_range columns{p.s, p.window, at.part};
    sum_to<Sums, true>(
        x, columns, all, [] {}, place_of_sum(p, at) + before_part(p, at.part));
    put_part(x, p, epoch, at);
    return true;
  }

  /// Where this rank writes a sum of another one's token: there, or where it is put from.
  static BATON_FN std::byte* place_of_sum(const params& p, const sum_part& at) {
    if constexpr (params::goes_by_put)
      if (is_put(p, at.source))
        return p.window_of(p.s.rank) + p.far.cells.sum_send_at(p.s, p.window, at.source, at.token, Sums);
    return p.window_of(taker_of_sum(p, at.source)) +
           p.window.sum_at(p.s, cell_of_sum(p, at.source, p.s.rank), at.token, Sums);
  }

  /// Whether this rank's sums of the source's tokens are put there: with two levels by its forwarder.
  static BATON_FN bool is_put(const params& p, int source) {
    if constexpr (params::has_two_levels)
      return forwards_for(p, source);
    else
      return !p.far.near.has(source);
  }

  /// The part to a rank beyond the group, and its word. At once: what is on its way of a next part would have to be kept in
  /// memory around a put's calls.
  template <class X>
  static BATON_FN void put_part(X& x, const params& p, std::uint64_t epoch, const sum_part& at) {
    const int first = at.part * p.window.sum_columns,
              columns = smaller(p.window.sum_columns, p.s.hidden - first);
    const std::size_t before = static_cast<std::size_t>(at.part) *
                               static_cast<std::size_t>(sum_bytes_of(Sums, p.window.sum_columns));
    put_each_and_tell(x, 1u, [&](int) {
      std::byte* const there = p.window_of(at.source);
      return signalled_put{
          there + p.window.sum_at(p.s, p.s.rank, at.token, Sums) + before, place_of_sum(p, at) + before,
          sum_bytes_of(Sums, columns),
          word_of_round(at.source, there + p.window.sum_word_at(p.s, p.s.rank, at.token, at.part),
                        static_cast<std::uint32_t>(epoch), 1)};
    });
  }

  /// Bytes of a sum before a part, where the part lies by itself.
  static BATON_FN int before_part(const params& p, int part) {
    return Sums == token_format::bf16 ? 0 : part * sum_bytes_of(Sums, p.window.sum_columns);
  }

  /// Of the parts that were sent before (S1). Nothing of the next one is stored yet: what has to be done before was asked for
  /// long ago, so that there is less to wait for.
  template <class X>
  static BATON_FN void tell(X& x, const params& p, std::uint64_t epoch, untold_parts<X>& sent) {
    x.sync_warp();
    x.each_lane([&](int lane) {
      if (lane < sent.held)
        publish<epoch_arrival>(x, word_of_sum(p, sent.at[lane]), static_cast<std::uint32_t>(epoch), 1);
    });
    x.sync_warp();
    sent.held = 0;
  }

  /// This rank's part, and those by other ranks that come here, when they are here. False: gave up.
  template <class X>
  static BATON_FN bool await_addends(X& x, const params& p, std::uint64_t epoch, const known_part<X>& part,
                                     addends<X>& all) {
    const sum_part& at = part.at;
    const std::uint32_t ranks = x.broadcast(part.ranks, 0), own = 1u << p.s.rank;
    const bool is_own = (ranks & own) != 0, is_fused = p.roles.senders > 0;
    if (!find_rows(x, p, part, is_own && is_fused ? x.broadcast(part.choices, 0) : 0, all)) return false;
    if (is_own && !is_fused) all.own = own_sum(p, at);
    all.below = ranks & (own - 1);
    all.above = ranks & ~own & ~(own - 1);
    if (p.shared.present() && !forwards_for(p, at.source)) all.shared = p.shared.of(at.token, p.s.hidden);
    all.kept = plan().kept(x) + x.warp() * columns_of_set;
    if (!await_sums(x, p, epoch, at, all.below | all.above)) return false;
    all.sums.base = reinterpret_cast<const vec16*>(p.window_of(p.s.rank) + p.window.sums);
    x.each_lane([&](int r) {
      constexpr auto vector = static_cast<int>(sizeof(vec16));
      all.sums.first[r] =
          static_cast<std::uint32_t>(cell_of_sum(p, at.source, r) * p.s.max_tokens + at.token) *
              static_cast<std::uint32_t>(p.window.sum_bytes(p.s, Sums) / vector) +
          static_cast<std::uint32_t>(before_part(p, at.part) / vector);
      all.sums.weight[r] = 1.0f;  // fma(1, v, s) is s + v
    });
    return true;
  }

  template <class X>
  static BATON_FN bool receive_part(X& x, const params& p, std::uint64_t epoch, const known_part<X>& part) {
    const sum_part& at = part.at;
    addends<X> all;
    if (!await_addends(x, p, epoch, part, all)) return false;
    sum_up<Sums, true>(
        x, column_range{p.s, p.window, at.part}, all, [] {},
        [&](int place, const float(&sum)[columns_of_lane]) {
          float out[columns_of_lane];
          BATON_UNROLL
          for (int i = 0; i < columns_of_lane; ++i) out[i] = sum[i] + 0.0f;  // as if added to 0: never -0
          p.output(x, at.token, place * columns_of_lane, out);
        });
    return true;
  }
};

template <class Output, token_format Sums = token_format::bf16>
struct combine_kernel : combine_body<Output, Sums, combine_params<Output>> {};

}  // namespace baton::ep::per_rank_chunks
