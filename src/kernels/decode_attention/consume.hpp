#pragma once
// A consumer group: half of O's columns, of all rows of the item. Both groups score all keys of a tile, so that nothing passes
// between them: the time that this takes on tensor cores is a tenth of what memory takes to bring the keys.
//
//   tensor cores   | Q K(t) a b c d |          | P V(t) a b c d | Q K(t+1) ...
//   the group      | release K       | weights  | release V
#include "kernels/attention/running_softmax.hpp"
#include "kernels/decode_attention/items.hpp"
#include "protocol/mma_commit.hpp"

namespace baton::decode_attention {

/// What a consumer waits for.
enum class wait_of : std::uint32_t { none, q, slot, rows_staged, rows_taken };

constexpr wait_site site_of(wait_of which) {
  switch (which) {
    case wait_of::q:
      return {.where = "decode.q_filled"};
    case wait_of::rows_staged:
      return {.where = "decode.rows_staged"};
    case wait_of::rows_taken:
      return {.where = "decode.rows_taken"};
    default:
      return {.where = "decode.slot_filled"};
  }
}

/// Products in flight leave no registers for telling of a wait that is late, and none may end them: so all goes on to the end,
/// and what was made is not meant for anybody.
template <scope Reach, config C, class X>
BATON_FN void wait_or_note(X& x, wait_of what, mbarrier* b, parity p) {
  x.template mbarrier_wait_or_note<Reach>(b, p, static_cast<std::uint32_t>(what), site_of(what),
                                          block_plan<C>{}.late(x));
}

template <config C, class X>
class consume_role {
  using T = value<C>;
  using weights = typename X::template group_results<piece_keys, T>;

 public:
  using scores = typename X::template group_accumulators<tile_keys>;
  using sums = typename X::template group_accumulators<C.columns()>;

  BATON_FN consume_role(X& x, const params& p, walk<C, X>& items, int number)
      : x_{x},
        p_{p},
        items_{items},
        group_{number},
        slots_{slot_pipeline<C>{block_plan<C>{}.slot_barriers(x)}.consumer()} {}

  /// O of the block's keys of a part. What it leaves where there are none is nobody's.
  BATON_FN void run(sums& o, attention_kernels::running_softmax<X>& softmax) {
    wait_or_note<scope::block, C>(x_, wait_of::q, block_plan<C>{}.q_filled(x_),
                                  parity_of(static_cast<std::uint32_t>(items_.now().number)));
    int piece = items_.now().first_piece;
    if (piece >= items_.now().end_piece) return release_q();
    BATON_ROLLED
    for (bool add = false; piece < items_.now().end_piece; piece += tile_pieces, add = true) {
      scores s;
      score(s);
      if (piece + tile_pieces >= items_.now().end_piece) release_q();
      mask(s, piece);
      softmax.see(x_.largest_values(s));
      softmax.template weigh<0, tile_keys>(s);
      if (add && softmax.rescales()) x_.scale_rows(o, softmax.factor());
      add_product(o, s, piece, add);
    }
  }

 private:
  BATON_FN void await_slot(const typename slot_pipeline<C>::consumer_end& slots) {
    slots.consumer_wait_by([this](mbarrier* b, parity p) {
      wait_or_note<scope::block, C>(x_, wait_of::slot, b, p);
      return true;
    });
  }
  /// Of the slot whose products were started `ago` slots ago: 1 is the last one.
  BATON_FN void release(int ago) {
    awaited_engine<scope::block> awaited;
    slots_.consumer_release_passed(x_, awaited, ago);
  }
  BATON_FN void release_q() {
    x_.sync_warp();
    x_.elect([&] { x_.template mbarrier_arrive<scope::block>(block_plan<C>{}.q_free(x_), 1); });
  }

  BATON_FN void score(scores& s) {
    BATON_UNROLL
    for (int i = 0; i < C.k_slots(); ++i) {
      await_slot(slots_);
      const tile<C> k = slot_tile<C>(x_, slots_.index());
      BATON_UNROLL
      for (int c = 0; c < C.k_slot_chunks(); ++c) {
        const int chunk = i * C.k_slot_chunks() + c;
        x_.start_product(s, x_.prepare_anew(q_tile<C>(x_, 0)).from_row(chunk * group_rows),
                         x_.prepare_anew(k.from_row(c * tile_keys)), chunk > 0);
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
    if constexpr (C.softcap)
      x_.each_pair(s, [&](int, int, float& v0, float& v1) {
        v0 = tanh_quickly(v0 * p_.cap_scale), v1 = tanh_quickly(v1 * p_.cap_scale);
      });
    const part w = items_.now();
    const int key = piece * piece_keys, end_key = smaller(w.end_piece * piece_keys, w.keys);
    const bool all_see_all = key >= w.diagonal + w.tokens - 1 - p_.left && key + tile_keys <= end_key &&
                             key + tile_keys <= w.diagonal + p_.right + 1;
    if (all_see_all) return;
    const int first_row = x_.warp_of_group() * group_warp_rows;
    x_.each_pair(s, [&](int row, int column, float& v0, float& v1) {
      const int level = w.diagonal + p_.group.quotient(first_row + row);
      const int first = level - p_.left - key - column;
      const int end = smaller(level + p_.right + 1, end_key) - key - column;
      v0 = first <= 0 && end > 0 ? v0 : -INFINITY;
      v1 = first <= 1 && end > 1 ? v1 : -INFINITY;
    });
  }
  /// O += P * V of a tile's pieces.
  BATON_FN void add_product(sums& o, const scores& s, int piece, bool add) {
    const int count = smaller(items_.now().end_piece - piece, tile_pieces);
    weights p[tile_pieces];
    BATON_UNROLL
    for (int i = 0; i < tile_pieces; ++i) x_.round(s, i * piece_keys, p[i]);
    clear_unseen(piece, count);
    BATON_UNROLL
    for (int i = 0; i < tile_pieces; ++i) {
      if (i >= count) continue;
      await_slot(slots_);
      x_.start_product(o, p[i], rows_of_k<T, piece_keys>{own_columns(slots_.index())}, add || i > 0);
      slots_.step();
    }
    x_.template await_products<0>(o);
    BATON_ROLLED
    for (int i = count; i > 0; --i) release(i);
  }
  /// Of a slot of V.
  BATON_FN tile<C> own_columns(int slot) {
    return slot_tile<C>(x_, slot).from_row(group_ * C.columns() / tile<C>::columns * piece_keys);
  }
  /// A weight of 0 would make no numbers of what are none: keys that no row of the sequence sees become zeros, in the columns of
  /// this group.
  BATON_FN void clear_unseen(int piece, int count) {
    const part w = items_.now();
    const int first_seen = w.diagonal - w.token - p_.left;  // of the sequence's first token
    if (piece * piece_keys >= first_seen && (piece + count) * piece_keys <= w.keys) return;
    auto ahead = slots_;
    BATON_ROLLED
    for (int i = 0; i < count; ++i) {
      await_slot(ahead);
      clear_keys(own_columns(ahead.index()), first_seen - (piece + i) * piece_keys,
                 w.keys - (piece + i) * piece_keys);
      ahead.step();
    }
    x_.sync_groups(1 + group_, 1);
  }
  /// All but rows `first` to end - 1.
  BATON_FN void clear_keys(const tile<C>& v, int first, int end) {
    constexpr int rows = C.columns() / tile<C>::columns * piece_keys,
                  rows_at_once = warp_lanes / tile<C>::chunks;
    x_.each_lane([&](int lane) {
      BATON_ROLLED
      for (int n = x_.warp_of_group() * rows_at_once + lane / tile<C>::chunks; n < rows;
           n += group_warps * rows_at_once)
        if (n % piece_keys < first || n % piece_keys >= end)
          x_.write(v.chunk(n, lane % tile<C>::chunks), vec16{});
      x_.fence_proxy_async();
    });
  }

  X& x_;
  const params& p_;
  walk<C, X>& items_;
  int group_;
  typename slot_pipeline<C>::consumer_end slots_;
};

}  // namespace baton::decode_attention
