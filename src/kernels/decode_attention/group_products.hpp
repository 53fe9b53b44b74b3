#pragma once
// A consumer group's products of K and V of 16 bits: half of the item's rows, if there are as many, and all of O's columns.
//
//   tensor cores   | K(t) Q a b |                            | V(t) P a b | K(t+1) Q ...
//   the group      | release K  | largest | barrier | weights, barrier   | release V
#include "kernels/decode_attention/slot_reader.hpp"

namespace baton::decode_attention {

template <config C, class X>
class group_products : protected slot_reader<C, X> {
  using base = slot_reader<C, X>;
  using T = value<C>;

 protected:
  using base::base, base::x_, base::p_, base::items_, base::group_, base::slots_;
  using typename base::scores, typename base::sums;

  /// Q is multiplied as it came, and values are what they are.
  BATON_FN void prepare_q() {}
  BATON_FN void descale(sums (&)[C.sums()]) {}
  BATON_FN void score(scores& s) {
    BATON_UNROLL
    for (int i = 0; i < C.k_slots(); ++i) {
      this->await_slot(slots_);
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
        this->release(2);
      }
    }
    x_.template await_products<0>(s);
    this->release(1);
  }
  /// O += V^T * P^T of a tile's pieces, behind a barrier of all who put weights.
  BATON_FN void add_product(sums (&o)[C.sums()], int piece, bool add) {
    const int count = smaller(items_.now().end_piece - piece, C.tile_pieces());
    x_.each_lane([&](int) { x_.fence_proxy_async(); });
    clear_unseen(piece, count);
    sync_row_warps<C>(x_, group_);
    BATON_UNROLL
    for (int i = 0; i < C.tile_pieces(); ++i) {
      if (i >= count) continue;
      if (i % C.v_slot_pieces() == 0) this->await_slot(slots_);
      x_.start_products(o,
                        turned_tiles<T, C.v_step()>{slot_at<C>(x_, slots_.index()) +
                                                    i % C.v_slot_pieces() * C.v_piece_bytes()},
                        tile_columns<T, piece_keys>{weights_tile<C>(x_, group_), i * piece_keys},
                        add || i > 0);
      if ((i + 1) % C.v_slot_pieces() == 0 || i + 1 == count) slots_.step();
    }
    x_.template await_all_products<0>(o);
    for (int i = ceil_div(count, C.v_slot_pieces()); i > 0; --i) this->release(i);
  }

 private:
  /// A weight of 0 would make no numbers of what are none: keys that no row of the sequence sees become zeros.
  BATON_FN void clear_unseen(int piece, int count) {
    const attention_kernels::key_range seen = this->seen_from(piece);
    if (seen.begin <= 0 && count * piece_keys <= seen.end) return;
    auto ahead = slots_;
    BATON_ROLLED
    for (int i = 0; i < count; i += C.v_slot_pieces()) {
      this->await_slot(ahead);
      clear_keys(slot_at<C>(x_, ahead.index()), smaller(count - i, C.v_slot_pieces()) * piece_keys,
                 seen.begin - i * piece_keys, seen.end - i * piece_keys);
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
};

}  // namespace baton::decode_attention
