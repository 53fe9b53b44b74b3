#pragma once
// A consumer: of those that make the same rows, its share of each tile's keys in scores, and of O's columns in sums. Rows are
// columns here: of scores, which are keys by rows, and of sums, which are O's columns by rows. Products: group_products.hpp, or
// e4m3_products.hpp.
#include <type_traits>

#include "base/convert.hpp"
#include "kernels/decode_attention/e4m3_products.hpp"
#include "kernels/decode_attention/group_products.hpp"

namespace baton::decode_attention {

template <config C, class X>
using products_of = std::conditional_t<C.e4m3, e4m3_products<C, X>, group_products<C, X>>;

template <config C, class X>
class consume_role : products_of<C, X> {
  using base = products_of<C, X>;
  using base::x_, base::p_, base::items_, base::group_, base::slots_;
  using typename base::scores;

 public:
  using base::base;
  using typename base::sums;

  /// O of the block's keys of a part: merge_places says which columns. What it leaves where there are none is nobody's.
  BATON_FN void run(sums (&o)[C.sums()], column_softmax<C, X>& softmax) {
    wait_or_note<scope::block, C>(x_, wait_of::q)(block_plan<C>{}.q_filled(x_),
                                                  parity_of(static_cast<std::uint32_t>(items_.now().number)));
    const int end = items_.now().end_piece;
    int piece = items_.now().first_piece;
    if (!items_.has_rows(group_)) return pass(piece, end);
    if (piece >= end) return release_q();
    this->prepare_q();
    BATON_ROLLED
    for (bool add = false; piece < end; piece += C.tile_pieces(), add = true) {
      scores s;
      this->score(s);
      if (piece + C.tile_pieces() >= end) release_q();
      mask(s, piece);
      if (softmax.see(s) && add) {
        BATON_UNROLL
        for (sums& part : o) x_.scale_columns(part, softmax.factor());
      }
      softmax.weigh(s);
      put_weights(s);
      this->add_product(o, piece, add);
    }
    this->descale(o);
  }

 private:
  BATON_FN void release_q() {
    x_.sync_warp();
    x_.elect([&] { x_.template mbarrier_arrive<scope::block>(block_plan<C>{}.q_free(x_), 1); });
  }
  /// Without rows: slots go by.
  BATON_FN void pass(int piece, int end) {
    BATON_ROLLED
    for (; piece < end; piece += C.tile_pieces()) {
      const int slots = C.k_slots() + ceil_div(smaller(end - piece, C.tile_pieces()), C.v_slot_pieces());
      for (int i = 0; i < slots; ++i) {
        this->await_slot(slots_);
        slots_.step();
        this->release(1);
      }
    }
    release_q();
  }
  /// Caps scores, and takes those away that a row does not see, or that are not of this block.
  BATON_FN void mask(scores& s, int piece) {
    if (p_.cap_scale > 0)
      x_.each_pair(s, [&](int, int, float& v0, float& v1) {
        v0 = tanh_quickly(v0 * p_.cap_scale), v1 = tanh_quickly(v1 * p_.cap_scale);
      });
    const part w = items_.now();
    const int key = piece * piece_keys, end_key = smaller(w.end_piece * piece_keys, w.keys);
    const bool all_see_all = key >= w.diagonal + w.tokens - 1 - p_.left && key + C.tile_keys() <= end_key &&
                             key + C.tile_keys() <= w.diagonal + p_.right + 1;
    if (all_see_all) return;
    const int first_key = key + row_warp<C>(x_) * group_warp_rows, first_row = group_ * C.rows_of_group();
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
    using W = weight<C>;
    const int first = row_warp<C>(x_) * group_warp_rows;
    const swizzled_tile<W> to = weights_tile<C>(x_, group_, first / swizzled_tile<W>::columns);
    x_.each_pair(s, [&](int row, int column, float& v0, float& v1) {
      const std::uint32_t both = pack_two<W>(v0, v1);
      const int key = first % swizzled_tile<W>::columns + row;
      x_.write(reinterpret_cast<std::uint16_t*>(to.chunk(column, key / 8)) + key % 8,
               static_cast<std::uint16_t>(both));
      x_.write(reinterpret_cast<std::uint16_t*>(to.chunk(column + 1, key / 8)) + key % 8,
               static_cast<std::uint16_t>(both >> 16));
    });
  }
};

}  // namespace baton::decode_attention
