#pragma once
// Which row each received token gets, found by every block for itself from all ranks' ids: bits say which tokens of which
// rank list an expert; rows of an expert are its bits in order, that is by source rank and token.
//
//   row(expert, source, token) = first row of (expert, source) + bits before the token's among the source's
//
// A token that lists an expert twice has one row there, of its first such choice.
#include "base/bits.hpp"
#include "exec/collectives.hpp"
#include "exec/shared_plan.hpp"
#include "kernels/ep/per_rank/params.hpp"

namespace baton::ep::per_rank {

inline constexpr int tokens_of_quad = 128;  // bits of a vec16
inline constexpr int counts_of_lane = 8;    // of pairs, that a lane numbers at once where ranks are known

/// Its sizes for one communicator.
struct row_index_shape {
  int quads;      // of bits for one source
  int words;      // of an expert: an odd number of 16 bytes, so that neighbouring experts do not share banks
  int id_stride;  // ids of one source

  constexpr explicit row_index_shape(const shape& s)
      : quads{ceil_div(s.max_tokens, tokens_of_quad)},
        words{(s.num_ranks * quads | 1) * 4},
        id_stride{larger(1, ceil_div(s.max_tokens * s.top_k, ids_of_access)) * ids_of_access} {}
};

template <class P>
struct row_index {
  const P& p;
  row_index_shape size;
  std::uint32_t* bits;      // [local experts, words]
  std::int32_t* rows;       // [local experts, R]: a source's rows of the expert
  std::int32_t* first_row;  // [local experts, R]: the first of them
  std::uint16_t* ids;       // [R, id_stride]
  std::int32_t* counts;     // [R]: tokens
  std::uint32_t* spare;     // [max_warps, lanes]: what nobody reads

  BATON_FN int num_experts() const { return p.window.experts_here; }

  /// One lane: a chunk of ids of `source` from index `first` on, eight in a vec16, is known; ids past its `end` are none.
  /// There are no branches in it, nor does an id wait for the one before: what is of no expert here goes to a spare word.
  template <class Chunk, class X>
  BATON_FN void note(X& x, int lane, int source, int first, int end, const Chunk& chunk) const {
    constexpr int n = static_cast<int>(sizeof(Chunk)) / id_bytes;
    x.write(reinterpret_cast<Chunk*>(ids + source * size.id_stride + first), chunk);
    int token = p.window.by_top_k.quotient(first), k = first - token * p.s.top_k;
    chosen of[n];
    BATON_UNROLL
    for (int i = 0; i < n; ++i) {
      const std::uint32_t id = chunk.word[i / 2] >> (16 * (i % 2)) & 0xffffu;
      of[i] = mark(x, lane, source, token, first + i < end ? id : no_id);
      if (++k == p.s.top_k) k = 0, ++token;
    }
    BATON_UNROLL
    for (int i = 0; i < n; ++i)
      x.template fetch_add<order::relaxed, scope::block>(
          (of[i].before & of[i].bit) == 0 ? rows + of[i].pair
                                          : reinterpret_cast<std::int32_t*>(spare_word(x, lane)),
          1);
  }

  /// One warp: the first rows, when all ids are noted.
  template <class X>
  BATON_FN void number(X& x) const {
    if constexpr (counts_of_lane % larger(1, P::known_ranks) == 0 && P::known_ranks > 1)
      number_known(x);
    else
      number_any(x);
  }

  /// One lane: rows of a local expert.
  template <class X>
  BATON_FN int rows_of(X& x, int local) const {
    int all = 0;
    for (int r = 0; r < p.num_ranks(); ++r) all += x.read(rows + local * p.num_ranks() + r);
    return all;
  }
  template <class X>
  BATON_FN int first_row_of(X& x, int local) const {
    return x.read(first_row + local * p.num_ranks());
  }

  /// One lane: the row of a choice; -1: another rank's expert, or none.
  template <class X>
  BATON_FN std::int32_t find(X& x, int source, int token, int k) const {
    const std::uint32_t local = local_expert(x.read(ids + source * size.id_stride + token * p.s.top_k + k));
    if (local >= static_cast<std::uint32_t>(num_experts())) return -1;
    int row = x.read(first_row + static_cast<int>(local) * p.num_ranks() + source);
    const auto* quads = reinterpret_cast<const vec16*>(bits_of(local, source));
    const int last = token / tokens_of_quad;
    BATON_ROLLED
    for (int q = 0; q < last; ++q) {
      const vec16 all = x.read(quads + q);
      for (const std::uint32_t word : all.word) row += count_bits(word);
    }
    const vec16 own = x.read(quads + last);
    BATON_UNROLL
    for (int i = 0; i < 4; ++i) row += count_bits(own.word[i] & bits_below(token % tokens_of_quad - 32 * i));
    return row;
  }

 private:
  struct some_counts {
    vec16 part[counts_of_lane / 4];
    BATON_FN std::uint32_t& at(int i) { return part[i / 4].word[i % 4]; }
  };

  /// Of a number of ranks that divides a lane's counts: a lane has those of experts that are neighbours, read at once, and writes
  /// their first rows at once. Behind the last expert counts are 0.
  template <class X>
  BATON_FN void number_known(X& x) const {
    constexpr int ranks = P::known_ranks, experts = counts_of_lane / ranks;
    int before = 0;
    for (int first = 0; first < num_experts(); first += experts * warp_lanes) {
      typename X::template lanes<int> sum;
      typename X::template lanes<some_counts> own;
      x.each_lane([&](int lane) {
        const int expert = first + experts * lane;
        own[lane] = {};
        if (expert < num_experts())
          each_vector([&](int v) { own[lane].part[v] = x.read(counts_at(rows, expert) + v); });
        sum[lane] = 0;
        BATON_UNROLL
        for (int e = 0; e < experts; ++e) sum[lane] += padded(own[lane], e);
      });
      inclusive_scan(x, sum);
      x.each_lane([&](int lane) {
        const int expert = first + experts * lane;
        some_counts rows_before{};
        int next = before + sum[lane];
        BATON_UNROLL
        for (int e = experts - 1; e >= 0; --e) {
          next -= padded(own[lane], e);
          int row = next;
          BATON_UNROLL
          for (int r = 0; r < ranks; ++r) {
            rows_before.at(e * ranks + r) = static_cast<std::uint32_t>(row);
            row += static_cast<int>(own[lane].at(e * ranks + r));
          }
        }
        if (expert < num_experts())
          each_vector([&](int v) { x.write(counts_at(first_row, expert) + v, rows_before.part[v]); });
      });
      before += x.broadcast(sum, warp_lanes - 1);
    }
  }
  template <class F>
  static BATON_FN void each_vector(F f) {
    BATON_UNROLL
    for (int v = 0; v < counts_of_lane / 4; ++v) f(v);
  }
  static BATON_FN vec16* counts_at(std::int32_t* of_pairs, int expert) {
    return reinterpret_cast<vec16*>(of_pairs + expert * P::known_ranks);
  }
  BATON_FN int padded(some_counts& of, int nth) const {
    std::uint32_t all = 0;
    BATON_UNROLL
    for (int r = 0; r < P::known_ranks; ++r) all += of.at(nth * P::known_ranks + r);
    return p.window.taken.by(static_cast<int>(all));
  }

  /// 128 experts at a time, four neighbours a lane.
  template <class X>
  BATON_FN void number_any(X& x) const {
    int before = 0;
    for (int first = 0; first < num_experts(); first += 4 * warp_lanes) {
      typename X::template lanes<int> sum;
      typename X::template lanes<four_experts> own;
      x.each_lane([&](int lane) {
        sum[lane] = 0;
        BATON_UNROLL
        for (int i = 0; i < 4; ++i) {
          const int e = first + 4 * lane + i;
          const bool is_one = e < num_experts();
          own[lane].padded[i] = is_one ? p.window.taken.by(rows_of(x, e)) : 0;
          sum[lane] += own[lane].padded[i];
        }
      });
      inclusive_scan(x, sum);
      x.each_lane([&](int lane) {
        const int(&padded)[4] = own[lane].padded;
        int next = before + sum[lane] - (padded[0] + padded[1] + padded[2] + padded[3]);
        BATON_UNROLL
        for (int i = 0; i < 4; ++i) {
          const int e = first + 4 * lane + i;
          if (e < num_experts()) give_rows(x, e, next);
          next += padded[i];
        }
      });
      before += x.broadcast(sum, warp_lanes - 1);
    }
  }
  template <class X>
  BATON_FN std::uint32_t* spare_word(X& x, int lane) const {
    return spare + x.warp() * warp_lanes + lane;
  }
  BATON_FN std::uint32_t local_expert(std::uint32_t id) const {
    return id - static_cast<std::uint32_t>(p.window.first_here);
  }
  BATON_FN std::uint32_t* bits_of(std::uint32_t local, int source) const {
    return bits + static_cast<int>(local) * size.words + source * size.quads * 4;
  }
  /// Those of a word below its `n`-th; n may lie outside.
  static BATON_FN std::uint32_t bits_below(int n) { return n <= 0 ? 0 : n >= 32 ? ~0u : (1u << n) - 1; }

  struct four_experts {
    int padded[4];  // rows
  };
  /// What marking a token's bit of an expert found.
  struct chosen {
    int pair;
    std::uint32_t bit, before;
  };

  template <class X>
  BATON_FN chosen mark(X& x, int lane, int source, int token, std::uint32_t id) const {
    const std::uint32_t local = local_expert(id), bit = 1u << (token % 32);
    const bool here = local < static_cast<std::uint32_t>(num_experts());
    const std::uint32_t before = x.template fetch_or<order::relaxed, scope::block>(
        here ? bits_of(local, source) + token / 32 : spare_word(x, lane), bit);
    return {static_cast<int>(local) * p.num_ranks() + source, bit, here ? before : bit};
  }

  /// One lane: the first rows of an expert's sources, from `row` on.
  template <class X>
  BATON_FN void give_rows(X& x, int expert, int row) const {
    for (int r = 0; r < p.num_ranks(); ++r) {
      const int pair = expert * p.num_ranks() + r;
      x.write(first_row + pair, row);
      row += x.read(rows + pair);
    }
  }
};

}  // namespace baton::ep::per_rank
