#pragma once
// combine, layout per_rank, for many tokens: on every rank d, for every token t of rank s that has choices here,
//   partial(s, t, :) = sum over these k, ascending, of weight(s, t, k) * expert_output[row(s, t, k), :]       in fp32
// goes to s as one row of bf16 (this rank's own stay fp32); and there, ranks ascending:
//   out[t, :] = sum over d of partial_d(t, :)                                                                 in fp32
// The same bits as per_rank/combine.hpp.
//
//   role      warps       does
//   send      senders     sum up other ranks' tokens, have the copy engine store the sums there; publish a chunk's arrival; then
//                         receive
//   receive   all         sum up this rank's tokens, await the other ranks' chunks, add, write
//
//   send      | ask for rows | add | store, publish ......... | own rows, others' sums -> out ... |
//   receive   | own rows, await and add others' sums -> out ..................................... |
//
// Rows and sums come through a ring of pieces (warp_ring.hpp), a token's one behind the other: while one is added, others are
// on their way. Apart, combine_async sends, this rank's own sums to its own memory, and combine_wait receives.
//
// S1: a chunk's sums happen before its arrival word is seen, as T3 of send.hpp.
#include "exec/kernel.hpp"
#include "kernels/ep/per_rank/round_start.hpp"
#include "kernels/ep/per_rank_chunks/token_sum.hpp"

namespace baton::ep::per_rank_chunks {

template <class Output>
struct combine_kernel {
  using params = combine_params<Output>;
  static constexpr kernel_bounds bounds{.max_threads = max_warps * warp_lanes, .blocks_per_sm = 1};

  template <line_exec_context X>
  static BATON_FN void run(X& x, const params& p) {
    x.launch_dependents();
    const block_plan shared = combine_plan(p.s, p.roles);
    prepare(x, shared, p.roles);
    x.sync_block();
    x.await_dependencies();
    const auto start = per_rank::begin_round(x, &p.epochs->dispatched);
    const per_rank::round_start now = x.broadcast(start, 0);
    if (now.aborted != 0) return;
    std::byte* room = shared.room_of(x, x.warp());
    warp_ring<X> ring{room, sum_bytes(p.s), shared.landed(x) + x.warp() * p.roles.stages, p.roles.stages};
    token_sum<X, params> sum{p, now.epoch(), ring};
    bool goes_on = true;
    if (x.warp() < p.roles.senders)
      goes_on = send_all(x, sum, shared.next(x), room + p.roles.stages * sum_bytes(p.s));
    if (goes_on && p.receives) goes_on = receive_all(x, sum, shared.next(x) + 1);
    if (!goes_on) ring.drain(x, {.where = sum_sites::piece()});
    x.bulk_wait();
    if (!goes_on || !p.receives || x.block() != 0 || x.warp() != 0) return;
    x.elect([&] { x.write(&p.epochs->combined, now.epoch()); });
  }

 private:
  /// One warp: chunks of other ranks' tokens, as long as the block has some; apart, of this rank's too.
  template <class X>
  static BATON_FN bool send_all(X& x, token_sum<X, params>& sum, std::uint32_t* next, std::byte* staging) {
    const params& p = sum.p;
    typename X::template lanes<int> counts;
    int most = 0;
    if (!read_counts(x, sum, counts, most)) return false;
    const int first = p.receives ? 1 : 0, sources = p.s.num_ranks - first;
    int out = 0;  // pieces that this warp has staged
    for (;;) {
      const int taken = take_next(x, next) * x.num_blocks() + x.block();
      if (sources == 0) return true;
      const int nth = taken / sources, first_token = nth * p.window.chunk_tokens;
      if (first_token >= most) return true;
      const int turn = p.s.rank + first + taken % sources,
                source = turn < p.s.num_ranks ? turn : turn - p.s.num_ranks;
      const int tokens = smaller(p.window.chunk_tokens, x.broadcast(counts, source) - first_token);
      if (tokens > 0 && !send_chunk(x, sum, {source, first_token, tokens}, {staging, out})) return false;
    }
  }

  /// Lane r: tokens of rank r; the most of any. False: a number that cannot be.
  template <class X>
  static BATON_FN bool read_counts(X& x, const token_sum<X, params>& sum,
                                   typename X::template lanes<int>& counts, int& most) {
    const params& p = sum.p;
    x.each_lane([&](int r) { counts[r] = r < p.s.num_ranks ? x.read(p.token_counts + r) : 0; });
    for (int r = 0; r < p.s.num_ranks; ++r) {
      const int tokens = x.broadcast(counts, r);
      if (tokens < 0 || tokens > p.s.max_tokens) {
        x.elect([&] {
          x.refuse({.where = sum_sites::count(),
                    .peer = r,
                    .epoch = static_cast<std::uint32_t>(sum.epoch),
                    .expected = static_cast<std::uint64_t>(p.s.max_tokens)},
                   static_cast<std::uint32_t>(tokens));
        });
        return false;
      }
      most = larger(most, tokens);
    }
    return true;
  }

  /// Tokens of a chunk of `source`.
  struct chunk {
    int source, first_token, tokens;
  };
  /// Two places, and how many pieces have been staged in them.
  struct staging {
    std::byte* places;
    int& staged;
  };

  template <class X>
  static BATON_FN bool send_chunk(X& x, token_sum<X, params>& sum, const chunk& c, const staging& stage) {
    const params& p = sum.p;
    typename X::template lanes<std::uint32_t> choices;
    typename X::template lanes<bool> here;
    x.each_lane([&](int lane) {
      const std::int64_t token = static_cast<std::int64_t>(c.source) * p.s.max_tokens + c.first_token + lane;
      choices[lane] = lane < c.tokens ? x.read(p.choices + token) : 0;
      here[lane] = choices[lane] != 0;
    });
    const std::uint32_t coming = x.ballot(here);
    if (coming == 0) return true;
    for (std::uint32_t left = coming; left != 0; left &= left - 1) {
      const int nth = lowest_bit(left);
      const auto finish = [&](int piece, const lane_sums<X>& own, const lane_sums<X>&) {
        if (c.source == p.s.rank)
          keep(x, p, {c.first_token + nth, piece}, own);
        else
          send_piece(x, p, c.source, {c.first_token + nth, piece}, own, stage);
      };
      if (!sum.begin(x, c.source, c.first_token + nth, x.broadcast(choices, nth)) ||
          !sum.each_piece(x, 0, finish, [](int) { return true; }))
        return false;
    }
    if (c.source == p.s.rank) return true;
    x.bulk_wait();
    x.elect([&] {
      x.fence_proxy_async_global();
      auto* word =
          p.windows.at[c.source] + p.window.sum_word_at(p.s.rank, c.first_token / p.window.chunk_tokens);
      publish<epoch_arrival>(x, reinterpret_cast<std::uint64_t*>(word), static_cast<std::uint32_t>(sum.epoch),
                             count_bits(coming));
    });
    return true;
  }

  struct sum_piece {
    int token, piece;
  };

  template <class X>
  static BATON_FN void send_piece(X& x, const params& p, int to, const sum_piece& at, const lane_sums<X>& sum,
                                  const staging& stage) {
    std::byte* place = stage.places + (stage.staged++ & 1) * sum_bytes(p.s);
    const int columns = smaller(sum_columns, p.s.hidden - at.piece * sum_columns);
    x.template bulk_wait_read<1>();
    x.each_lane([&](int lane) {
      BATON_UNROLL
      for (int i = 0; i < sum_steps; ++i) {
        const int column = column_of(i, lane);
        const float(&s)[8] = sum[lane].at[i];
        if (column < columns)
          x.write(reinterpret_cast<vec16*>(place + 2 * column),
                  vec16{{pack_bf16(s[0], s[1]), pack_bf16(s[2], s[3]), pack_bf16(s[4], s[5]),
                         pack_bf16(s[6], s[7])}});
      }
      x.fence_proxy_async();
    });
    x.sync_warp();
    x.elect([&] {
      x.bulk_store(p.windows.at[to] + p.window.sum_at(p.s, p.s.rank, at.token) + 2 * at.piece * sum_columns,
                   place, 2 * columns);
      x.bulk_commit();
    });
  }

  template <class X>
  static BATON_FN void keep(X& x, const params& p, const sum_piece& at, const lane_sums<X>& sum) {
    each_column(x, p.s.hidden, at.piece, [&](int lane, int i, int column) {
      float* to = p.own_sums + static_cast<std::int64_t>(at.token) * p.s.hidden + column;
      for (int c = 0; c < 8; ++c) x.write(to + c, sum[lane].at[i][c]);
    });
  }

  /// One warp: chunks of this rank's tokens, as long as the block has some.
  template <class X>
  static BATON_FN bool receive_all(X& x, token_sum<X, params>& sum, std::uint32_t* next) {
    const params& p = sum.p;
    for (;;) {
      const int nth = take_next(x, next) * x.num_blocks() + x.block(), first = nth * p.window.chunk_tokens;
      if (first >= p.num_tokens) return true;
      const chunk c{p.s.rank, first, smaller(p.window.chunk_tokens, p.num_tokens - first)};
      if (!receive_chunk(x, sum, c)) return false;
    }
  }

  template <class X>
  static BATON_FN bool receive_chunk(X& x, token_sum<X, params>& sum, const chunk& c) {
    const params& p = sum.p;
    const bool is_fused = p.roles.senders > 0;
    typename X::template lanes<std::uint32_t> sets, choices;
    x.each_lane([&](int lane) {
      const int token = c.first_token + lane;
      sets[lane] = lane < c.tokens ? x.read(p.rank_sets + token) : 0;
      const bool sums_here = is_fused && (sets[lane] >> p.s.rank & 1) != 0;
      choices[lane] =
          sums_here ? x.read(p.choices + static_cast<std::int64_t>(p.s.rank) * p.s.max_tokens + token) : 0;
    });
    std::uint32_t arrived = 0;
    const auto arrives = [&](int from) {
      if ((arrived >> from & 1) != 0) return true;
      arrived |= 1u << from;
      typename X::template lanes<bool> of_rank;
      x.each_lane([&](int lane) { of_rank[lane] = (sets[lane] >> from & 1) != 0; });
      const std::byte* word =
          p.windows.at[p.s.rank] + p.window.sum_word_at(from, c.first_token / p.window.chunk_tokens);
      return await_chunk(
          x, word, count_bits(x.ballot(of_rank)),
          {.where = sum_sites::chunk(), .peer = from, .epoch = static_cast<std::uint32_t>(sum.epoch)},
          sum_sites::damaged());
    };
    for (int nth = 0; nth < c.tokens; ++nth) {
      const int token = c.first_token + nth;
      const auto finish = [&](int piece, const lane_sums<X>&, const lane_sums<X>& total) {
        each_column(x, p.s.hidden, piece,
                    [&](int lane, int i, int column) { p.output(x, token, column, total[lane].at[i]); });
      };
      if (!sum.begin(x, p.s.rank, token, x.broadcast(choices, nth)) ||
          !sum.each_piece(x, x.broadcast(sets, nth), finish, arrives))
        return false;
    }
    return true;
  }
};

}  // namespace baton::ep::per_rank_chunks
