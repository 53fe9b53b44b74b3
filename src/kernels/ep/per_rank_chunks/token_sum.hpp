#pragma once
// What becomes of one token in combine: the weighted sum of its rows on this rank and, on its own rank, the sum of that and of
// what other ranks made of it. Pieces of sum_columns columns; a lane has 8 of each 256.
#include "base/add_weighted.hpp"
#include "base/bits.hpp"
#include "kernels/ep/per_rank_chunks/plan.hpp"
#include "kernels/ep/per_rank_chunks/receive.hpp"
#include "kernels/ep/per_rank_chunks/warp_ring.hpp"

namespace baton::ep::per_rank_chunks {

struct sum_sites {
  static consteval site chunk() { return "combine.chunk"; }
  static consteval site damaged() { return "combine.damaged_chunk"; }
  static consteval site row() { return "combine.damaged_row"; }
  static consteval site count() { return "combine.damaged_count"; }
  static consteval site piece() { return "combine.piece"; }
};

/// A lane's columns of a piece, in fp32.
struct piece_sums {
  float at[sum_steps][8];
};
template <class X>
using lane_sums = typename X::template lanes<piece_sums>;

/// The first of a lane's 8 columns of a step, in the piece.
constexpr int column_of(int step, int lane) {
  return (step * warp_lanes + lane) * 8;
}

/// The warp: f(lane, step, first of 8 columns of the token) for what the piece has.
template <class X, class F>
BATON_FN void each_column(X& x, int hidden, int piece, F f) {
  x.each_lane([&](int lane) {
    BATON_UNROLL
    for (int i = 0; i < sum_steps; ++i) {
      const int column = piece * sum_columns + column_of(i, lane);
      if (column < hidden) f(lane, i, column);
    }
  });
}

/// One warp's. `Params` are combine_params.
template <class X, class Params>
struct token_sum {
  const Params& p;
  std::uint64_t epoch;
  warp_ring<X>& ring;

  BATON_FN token_sum(const Params& params, std::uint64_t round, warp_ring<X>& pieces)
      : p{params}, epoch{round}, ring{pieces} {}

  /// Of which token: its choices on this rank. False: a row that there is not.
  BATON_FN bool begin(X& x, int source, int token, std::uint32_t choices) {
    token_ = token;
    rows_ = choices;
    const std::int64_t first = (static_cast<std::int64_t>(source) * p.s.max_tokens + token) * p.s.top_k;
    typename X::template lanes<bool> sound;
    x.each_lane([&](int k) {
      const bool here = (choices >> k & 1) != 0;
      entries_[k] = here ? x.read(p.entries + first + k) : entry{0, 0.0f};
      sound[k] = entries_[k].row >= 0 && entries_[k].row < p.window.max_rows;
    });
    const std::uint32_t all = x.ballot(sound);
    if (all == 0xffffffffu) return true;
    const int row = x.broadcast(entries_, lowest_bit(~all)).row;
    x.elect([&] {
      x.refuse({.where = sum_sites::row(),
                .peer = source,
                .epoch = static_cast<std::uint32_t>(epoch),
                .expected = static_cast<std::uint64_t>(p.window.max_rows)},
               static_cast<std::uint32_t>(row));
    });
    return false;
  }

  /// For each piece finish(piece, this rank's sum, the sum over `ranks`). arrives(rank) is called before that rank's sums
  /// are asked for, in order. False: gave up.
  template <class Finish, class Arrives>
  BATON_FN bool each_piece(X& x, std::uint32_t ranks, Finish finish, Arrives arrives) {
    const std::uint32_t others = ranks & ~(1u << p.s.rank);
    walk ahead{0, rows_, others};
    for (int piece = 0; piece < p.window.sum_pieces; ++piece) {
      lane_sums<X> own, total;
      x.each_lane([&](int lane) { own[lane] = total[lane] = {}; });
      for (std::uint32_t left = rows_; left != 0; left &= left - 1) {
        const std::byte* row = next(x, ahead, others, arrives);
        if (row == nullptr) return false;
        const float weight = x.broadcast(entries_, lowest_bit(left)).weight;
        add_piece(x, piece, row, weight, own);
        ring.release(x);
      }
      if (p.roles.senders == 0 && (ranks >> p.s.rank & 1) != 0) read_own(x, piece, own);
      for (std::uint32_t left = ranks; left != 0; left &= left - 1) {
        if (lowest_bit(left) == p.s.rank) {
          add_own(x, own, total);
          continue;
        }
        const std::byte* sums = next(x, ahead, others, arrives);
        if (sums == nullptr) return false;
        add_piece(x, piece, sums, 1.0f, total);  // fma(1, v, s) is s + v
        ring.release(x);
      }
      finish(piece, own, total);
    }
    return true;
  }

 private:
  /// What the ring is asked for next: of each piece the rows, then other ranks' sums.
  struct walk {
    int piece;
    std::uint32_t rows, ranks;
  };

  /// The next piece that is used, when it is here; asks for others as long as there is room. Null: gave up.
  template <class Arrives>
  BATON_FN const std::byte* next(X& x, walk& ahead, std::uint32_t others, Arrives& arrives) {
    while (ring.has_room() && ahead.piece < p.window.sum_pieces) {
      if (!ask(x, ahead, arrives)) return nullptr;
      if (ahead.rows == 0 && ahead.ranks == 0) ahead = {ahead.piece + 1, rows_, others};
    }
    return ring.await(x, {.where = sum_sites::piece()});
  }

  template <class Arrives>
  BATON_FN bool ask(X& x, walk& ahead, Arrives& arrives) {
    const int first = ahead.piece * sum_columns, bytes = 2 * smaller(sum_columns, p.s.hidden - first);
    const std::byte* from;
    if (ahead.rows != 0) {
      const int row = x.broadcast(entries_, lowest_bit(ahead.rows)).row;
      ahead.rows &= ahead.rows - 1;
      from =
          reinterpret_cast<const std::byte*>(p.expert_output + static_cast<std::int64_t>(row) * p.s.hidden);
    } else {
      const int rank = lowest_bit(ahead.ranks);
      ahead.ranks &= ahead.ranks - 1;
      if (!arrives(rank)) return false;
      from = p.windows.at[p.s.rank] + p.window.sum_at(p.s, rank, token_);
    }
    ring.load(x, from + 2 * first, bytes);
    return true;
  }

  BATON_FN void add_piece(X& x, int piece, const std::byte* values, float weight, lane_sums<X>& sum) {
    const auto* from = reinterpret_cast<const vec16*>(values);
    each_column(x, p.s.hidden, piece, [&](int lane, int i, int) {
      add_weighted(sum[lane].at[i], weight, x.read(from + i * warp_lanes + lane).word);
    });
  }

  BATON_FN void add_own(X& x, const lane_sums<X>& own, lane_sums<X>& total) {
    x.each_lane([&](int lane) {
      BATON_UNROLL
      for (int i = 0; i < sum_steps; ++i)
        for (int c = 0; c < 8; ++c) total[lane].at[i][c] += own[lane].at[i][c];
    });
  }

  /// What combine_async has kept.
  BATON_FN void read_own(X& x, int piece, lane_sums<X>& own) {
    each_column(x, p.s.hidden, piece, [&](int lane, int i, int column) {
      const float* from = p.own_sums + static_cast<std::int64_t>(token_) * p.s.hidden + column;
      for (int c = 0; c < 8; ++c) own[lane].at[i][c] = x.read(from + c);
    });
  }

  int token_ = 0;
  std::uint32_t rows_ = 0;
  typename X::template lanes<entry> entries_{};
};

}  // namespace baton::ep::per_rank_chunks
