#pragma once
// A consumer group: half of the item's rows, if there are as many, and all of O's columns. Rows are columns here: of scores,
// which are keys by rows, and of sums, which are O's columns by rows.
//
//   tensor cores   | K(t) Q a b |                            | V(t) P a b | K(t+1) Q ...
//   the group      | release K  | largest | barrier | weights, barrier   | release V
#include "base/convert.hpp"
#include "kernels/attention/running_softmax.hpp"
#include "kernels/decode_attention/items.hpp"
#include "kernels/decode_attention/waits.hpp"
#include "protocol/mma_commit.hpp"

namespace baton::decode_attention {

/// running_softmax of rows that are columns here. Its warps have a tile's keys among them.
template <config C, class X>
class column_softmax {
  using values = typename X::template column_values<C.rows_of_group()>;

 public:
  using scores = typename X::template group_accumulators<C.rows_of_group()>;

  BATON_FN column_softmax(X& x, float scale, int group)
      : x_{x}, scale_{scale}, group_{group}, most_{x.template of_columns<C.rows_of_group()>([](int) {
          return attention_kernels::no_score;
        })} {}

  /// A tile's scores. True: what was summed so far counts `factor()` from here on.
  BATON_FN bool see(const scores& s) {
    const float scale = scale_;
    const values largest = of_group(x_.largest_of_columns(s), [](float a, float b) { return larger(a, b); });
    const values now = x_.combined_columns(largest, most_, [scale](float top, float most) {
      return attention_kernels::raised_most(top, most, scale);
    });
    factor_ = x_.combined_columns(
        most_, now, [scale](float most, float raised) { return exp2_quickly((most - raised) * scale); });
    sums_ = x_.combined_columns(sums_, factor_, [](float sum, float by) { return sum * by; });
    most_ = now;
    return x_.any_column(factor_, [](float by) { return by != 1.0f; });
  }
  BATON_FN const values& factor() const { return factor_; }
  /// Scores become weights.
  BATON_FN void weigh(scores& s) {
    const float scale = scale_;
    const values low = x_.combined_columns(most_, most_, [scale](float most, float) { return most * scale; });
    x_.exponentials_of_columns(s, scale, low, sums_);
  }

  BATON_FN const values& most() const { return most_; }
  BATON_FN values sums() {
    return of_group(x_.total_of_columns(sums_), [](float a, float b) { return a + b; });
  }

 private:
  /// f of what all warps of the group have. Memory of every other turn is written over: by the barrier between all have read.
  template <class F>
  BATON_FN values of_group(const values& own, F f) {
    constexpr int rows = C.rows_of_group();
    float* const at =
        block_plan<C>{}.of_warps(x_) + (turn_ * consumer_groups + group_) * block_plan<C>::values_of_group;
    turn_ = 1 - turn_;
    x_.each_column(own, [&](int c, float v) { x_.write(at + x_.warp_of_group() * rows + c, v); });
    x_.sync_groups(1 + group_, 1);
    return x_.template of_columns<rows>([&](int c) {
      float v = x_.read(at + c);
      BATON_UNROLL
      for (int w = 1; w < group_warps; ++w) v = f(v, x_.read(at + w * rows + c));
      return v;
    });
  }

  X& x_;
  float scale_;
  int group_, turn_ = 0;
  values most_, factor_, sums_{};
};

template <config C, class X>
class consume_role {
  using T = value<C>;
  using scores = typename column_softmax<C, X>::scores;

 public:
  using sums = typename X::template group_accumulators<C.rows_of_group()>;

  BATON_FN consume_role(X& x, const params& p, walk<C, X>& items, int number)
      : x_{x},
        p_{p},
        items_{items},
        group_{number},
        slots_{slot_pipeline<C>{block_plan<C>{}.slot_barriers(x)}.consumer()} {}

  /// O of the block's keys of a part: of 64 columns each. What it leaves where there are none is nobody's.
  BATON_FN void run(sums (&o)[C.chunks()], column_softmax<C, X>& softmax) {
    wait_or_note<scope::block, C>(x_, wait_of::q)(block_plan<C>{}.q_filled(x_),
                                                  parity_of(static_cast<std::uint32_t>(items_.now().number)));
    const int end = items_.now().end_piece;
    int piece = items_.now().first_piece;
    if (!items_.has_rows(group_)) return pass(piece, end);
    if (piece >= end) return release_q();
    BATON_ROLLED
    for (bool add = false; piece < end; piece += tile_pieces, add = true) {
      scores s;
      score(s);
      if (piece + tile_pieces >= end) release_q();
      mask(s, piece);
      if (softmax.see(s) && add) {
        BATON_UNROLL
        for (sums& of_chunk : o) x_.scale_columns(of_chunk, softmax.factor());
      }
      softmax.weigh(s);
      put_weights(s);
      add_product(o, piece, add);
    }
  }

 private:
  BATON_FN void await_slot(const typename slot_pipeline<C>::consumer_end& slots) {
    slots.consumer_wait_by(wait_or_note<scope::block, C>(x_, wait_of::slot));
  }
  /// Of the slot whose products were started `ago` slots ago: 1 is the last one.
  BATON_FN void release(int ago) {
    wgmma_engine<scope::block> awaited;
    slots_.consumer_release_passed(x_, awaited, ago);
  }
  BATON_FN void release_q() {
    x_.sync_warp();
    x_.elect([&] { x_.template mbarrier_arrive<scope::block>(block_plan<C>{}.q_free(x_), 1); });
  }
  /// Without rows: slots go by.
  BATON_FN void pass(int piece, int end) {
    BATON_ROLLED
    for (; piece < end; piece += tile_pieces) {
      const int slots = C.k_slots() + ceil_div(smaller(end - piece, tile_pieces), C.v_slot_pieces());
      for (int i = 0; i < slots; ++i) {
        await_slot(slots_);
        slots_.step();
        release(1);
      }
    }
    release_q();
  }

  BATON_FN void score(scores& s) {
    BATON_UNROLL
    for (int i = 0; i < C.k_slots(); ++i) {
      await_slot(slots_);
      std::byte* const k = slot_at<C>(x_, slots_.index());
      BATON_UNROLL
      for (int c = 0; c < C.k_slot_chunks(); ++c) {
        const int chunk = i * C.k_slot_chunks() + c;
        x_.start_product(s, spread_tile<T, C.k_step()>{k + c * 8 * tile<C>::row_bytes},
                         q_tile<C>(x_, chunk).from_row(group_ * C.rows_of_group()), chunk > 0);
      }
      slots_.step();
      if (i > 0) {
        x_.template await_products<C.k_slot_chunks()>();
        release(2);
      }
    }
    x_.template await_products<0>(s);
    release(1);
  }
  /// Caps scores, and takes those away that a row does not see, or that are not of this block.
  BATON_FN void mask(scores& s, int piece) {
    if (p_.cap_scale > 0)
      x_.each_pair(s, [&](int, int, float& v0, float& v1) {
        v0 = tanh_quickly(v0 * p_.cap_scale), v1 = tanh_quickly(v1 * p_.cap_scale);
      });
    const part w = items_.now();
    const int key = piece * piece_keys, end_key = smaller(w.end_piece * piece_keys, w.keys);
    const bool all_see_all = key >= w.diagonal + w.tokens - 1 - p_.left && key + tile_keys <= end_key &&
                             key + tile_keys <= w.diagonal + p_.right + 1;
    if (all_see_all) return;
    const int first_key = key + x_.warp_of_group() * group_warp_rows, first_row = group_ * C.rows_of_group();
    const auto sees = [&](int row, int seen) {
      const int level = w.diagonal + p_.group.quotient(first_row + row);
      return seen >= level - p_.left && seen < smaller(level + p_.right + 1, end_key);
    };
    x_.each_pair(s, [&](int row, int column, float& v0, float& v1) {
      v0 = sees(column, first_key + row) ? v0 : -INFINITY;
      v1 = sees(column + 1, first_key + row) ? v1 : -INFINITY;
    });
  }
  /// Where products read them: rows as rows, and keys as columns.
  BATON_FN void put_weights(scores& s) {
    const tile<C> to = weights_tile<C>(x_, group_);
    const int first = x_.warp_of_group() * group_warp_rows;
    x_.each_pair(s, [&](int row, int column, float& v0, float& v1) {
      const std::uint32_t both = pack_two<T>(v0, v1);
      const int key = first + row;
      x_.write(reinterpret_cast<std::uint16_t*>(to.chunk(column, key / 8)) + key % 8,
               static_cast<std::uint16_t>(both));
      x_.write(reinterpret_cast<std::uint16_t*>(to.chunk(column + 1, key / 8)) + key % 8,
               static_cast<std::uint16_t>(both >> 16));
    });
    x_.each_lane([&](int) { x_.fence_proxy_async(); });
  }
  /// O += V^T * P^T of a tile's pieces.
  BATON_FN void add_product(sums (&o)[C.chunks()], int piece, bool add) {
    const int count = smaller(items_.now().end_piece - piece, tile_pieces);
    clear_unseen(piece, count);
    x_.sync_groups(1 + group_, 1);
    BATON_UNROLL
    for (int i = 0; i < tile_pieces; ++i) {
      if (i >= count) continue;
      if (i % C.v_slot_pieces() == 0) await_slot(slots_);
      x_.start_products(o,
                        turned_tiles<T, C.v_step()>{slot_at<C>(x_, slots_.index()) +
                                                    i % C.v_slot_pieces() * C.v_piece_bytes()},
                        tile_columns<T, piece_keys>{weights_tile<C>(x_, group_), i * piece_keys},
                        add || i > 0);
      if ((i + 1) % C.v_slot_pieces() == 0 || i + 1 == count) slots_.step();
    }
    x_.template await_all_products<0>(o);
    for (int i = ceil_div(count, C.v_slot_pieces()); i > 0; --i) release(i);
  }
  /// A weight of 0 would make no numbers of what are none: keys that no row of the sequence sees become zeros.
  BATON_FN void clear_unseen(int piece, int count) {
    const part w = items_.now();
    const int first_seen = w.diagonal - w.token - p_.left;  // of the sequence's first token
    if (piece * piece_keys >= first_seen && (piece + count) * piece_keys <= w.keys) return;
    auto ahead = slots_;
    BATON_ROLLED
    for (int i = 0; i < count; i += C.v_slot_pieces()) {
      await_slot(ahead);
      clear_keys(slot_at<C>(x_, ahead.index()), smaller(count - i, C.v_slot_pieces()) * piece_keys,
                 first_seen - (piece + i) * piece_keys, w.keys - (piece + i) * piece_keys);
      ahead.step();
    }
    if (items_.has_rows(1)) x_.sync_groups(clear_id, consumer_groups);
  }
  /// Of a slot of V with `keys` of them: all but `first` to end - 1. Groups that have rows share them.
  BATON_FN void clear_keys(std::byte* slot, int keys, int first, int end) {
    constexpr int chunks = C.chunks() * tile<C>::chunks;
    const int groups = items_.has_rows(1) ? consumer_groups : 1;
    x_.each_lane([&](int lane) {
      BATON_ROLLED
      for (int n = (group_ * group_warps + x_.warp_of_group()) * warp_lanes + lane; n < keys * chunks;
           n += groups * group_threads) {
        const int key = n / chunks, chunk = n % chunks;
        if (key >= first && key < end) continue;
        const spread_tile<T, C.v_step()> v{slot + chunk / tile<C>::chunks * 8 * tile<C>::row_bytes};
        x_.write(v.chunk(key, chunk % tile<C>::chunks), vec16{});
      }
      x_.fence_proxy_async();
    });
  }
  static constexpr int clear_id = 1 + consumer_groups;  // of the barrier of both groups

  X& x_;
  const params& p_;
  walk<C, X>& items_;
  int group_;
  typename slot_pipeline<C>::consumer_end slots_;
};

}  // namespace baton::decode_attention
