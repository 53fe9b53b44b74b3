#pragma once
// Both consumer groups' products of K and V of e4m3, which become fp16 on their way into registers, once for all rows of the
// item. A warp scores 16 keys of a tile's 128, and sums up an eighth of O's columns.
//
//   warp w | Q to fp16, barrier | K(t)[16 w ..] Q | largest | barrier | weights, barrier | V(t)[.., its columns] P | K(t+1) ...
#include "exec/narrow_mma.hpp"
#include "kernels/decode_attention/q_units.hpp"
#include "kernels/decode_attention/slot_reader.hpp"

namespace baton::decode_attention {

template <config C, class X>
class e4m3_products : protected slot_reader<C, X> {
  using base = slot_reader<C, X>;

 protected:
  using base::base, base::x_, base::p_, base::items_, base::group_, base::slots_;
  using typename base::scores, typename base::sums;

  BATON_FN void prepare_q() {
    q_units<C, X>{x_, p_, descale_of(p_.k_descale)}.make(row_warp<C>(x_));
    sync_row_warps<C>(x_, group_);
  }
  BATON_FN void score(scores& s) {
    x_.clear(s);
    BATON_UNROLL
    for (int i = 0; i < C.k_slots(); ++i) {
      this->await_slot(slots_);
      const spread_columns<float8_e4m3, C.k_step()> keys{slot_at<C>(x_, slots_.index()) +
                                                         row_warp<C>(x_) * C.k_piece_bytes()};
      x_.multiply_add(s, keys, q_units<C, X>::at(x_, i), columns());
      slots_.step();
      this->release(1);
    }
    const float* const factors = block_plan<C>{}.q_factors(x_);
    x_.scale_columns(s, x_.template of_columns<C.rows>([&](int row) { return x_.read(factors + row); }));
  }
  /// O += V^T * P^T of a tile's pieces, behind a barrier of all who put weights. A weight of 0 would make no numbers of what are
  /// none: keys that no row of the sequence sees count as zeros.
  BATON_FN void add_product(sums (&o)[C.sums()], int piece, bool add) {
    const int count = smaller(items_.now().end_piece - piece, C.tile_pieces());
    const attention_kernels::key_range of_sequence = this->seen_from(piece);
    const row_span seen{of_sequence.begin, smaller(of_sequence.end, count * piece_keys)};
    if (!add) {
      BATON_UNROLL
      for (sums& part : o) x_.clear(part);
    }
    sync_row_warps<C>(x_, group_);
    BATON_UNROLL
    for (int i = 0; i < block_plan<C>::weight_tiles; ++i) {
      if (i * product_keys >= count * piece_keys) continue;
      if (i % slot_products == 0) this->await_slot(slots_);
      const spread_columns<float8_e4m3, C.v_step()> v{
          slot_at<C>(x_, slots_.index()) + i % slot_products * product_keys / 8 * C.v_step(),
          row_warp<C>(x_) * C.sums()};
      x_.multiply_add_turned(o, v, weights_tile<C>(x_, group_, i),
                             {seen.begin - i * product_keys, seen.end - i * product_keys}, columns());
      if ((i + 1) % slot_products == 0 || (i + 1) * product_keys >= count * piece_keys) {
        slots_.step();
        this->release(1);
      }
    }
  }
  BATON_FN void descale(sums (&o)[C.sums()]) {
    const float by = descale_of(p_.v_descale);
    const auto all = x_.template of_columns<C.rows>([by](int) { return by; });
    BATON_UNROLL
    for (sums& part : o) x_.scale_columns(part, all);
  }

 private:
  /// Keys of V in one product, and how many such a slot has.
  static constexpr int product_keys = swizzled_tile<float16>::columns,
                       slot_products = C.v_slot_pieces() * piece_keys / product_keys;
  static_assert(C.k_slot_chunks() * cache_tile<C>::columns == fp16_units::units * fp16_units::unit_values);

  /// What e4m3 of the item's head of K or V are multiplied by.
  BATON_FN float descale_of(const float* of) {
    return of == nullptr ? 1.0f : x_.read(of + (p_.descale_by_head ? items_.now().kv_head : 0));
  }
  /// Of products, that are wanted: 8 where the item has up to 8 rows.
  BATON_FN int columns() { return items_.now().tokens * p_.heads_of_group <= 8 ? 8 : C.rows; }
};

}  // namespace baton::decode_attention
