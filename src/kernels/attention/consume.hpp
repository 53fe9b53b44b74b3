#pragma once
// What the consumer groups of blocks alone and of pairs have in common: a tile's scores become weights, weights make O.
#include "kernels/attention/products.hpp"
#include "kernels/attention/store.hpp"

namespace baton::attention_kernels {

template <config C, class X>
class consume_base {
 protected:
  using products_of = group_products<C, X>;
  using scores = typename products_of::scores;
  using sums = typename products_of::sums;
  using row_values = typename X::row_values;

  BATON_FN consume_base(X& x, const params& p, const consumer_item& own)
      : x_{x}, p_{p}, own_{own}, products_{x, own}, softmax_{x, p, own} {}

  /// The largest scores of the block's keys of a tile.
  BATON_FN row_values look_at(scores& s, int number) {
    softmax_.prepare(s, number);
    return softmax_.largest(s);
  }
  BATON_FN void weigh_half(scores& s, int half) {
    constexpr int keys = C.v_slot_keys();
    half == 0 ? softmax_.template weigh<0, keys>(s) : softmax_.template weigh<keys, keys>(s);
  }
  BATON_FN void keep_half(const scores& s, int half) { x_.round(s, half * C.v_slot_keys(), weights_[half]); }

  BATON_FN void rescale(sums& o) {
    if (!softmax_.rescales()) return;
    x_.template await_products<0>(o);
    x_.scale_rows(o, softmax_.factor());
  }
  /// Piece `i` of P * V of a tile, of the block's own keys.
  BATON_FN void start_own_pv(sums& o, int number, int i) {
    products_.start_pv(o, weights_[i], number > 0 || i > 0);
  }
  /// O is whole; `all_sums` are of all keys.
  BATON_FN void finish(sums& o, row_values& all_sums) {
    const row_values by = softmax_.finish(all_sums);
    x_.template await_products<0>(o);
    if (products_.is_late()) return;
    x_.scale_rows(o, by);
    store_role<C, X> store{x_, p_, own_};
    store.store(o);
    store.store_lse(all_sums);
  }

  X& x_;
  const params& p_;
  consumer_item own_;
  products_of products_;
  softmax<C, X> softmax_;
  typename products_of::weights weights_[2];
};

}  // namespace baton::attention_kernels
