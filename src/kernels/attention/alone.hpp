#pragma once
// A consumer group of a block that has all of O's columns: 64 rows of O in registers, and all keys of each tile.
//
//   tensor cores     | Q K(t) a, b . P V(t-1) a, b            | Q K(t+1) ...      the other group's products between
//   the group        | start all | await S: largest, weights  | await O, rescale, P(t) in 16 bits | start ...
#include "kernels/attention/consume.hpp"

namespace baton::attention_kernels {

template <config C, class X>
class alone_role : consume_base<C, X> {
  using base = consume_base<C, X>;
  using base::x_, base::products_, base::softmax_;
  using typename base::row_values;

 public:
  BATON_FN alone_role(X& x, const params& p, const consumer_item& own) : base{x, p, own} {}

  BATON_FN void run() {
    typename base::scores s;
    typename base::sums o;
    products_.take_q();
    products_.template start_first_qk<0>(s), products_.template start_first_qk<1>(s);
    x_.template await_products<0>(s);
    products_.release(2), products_.release(1);
    weigh(s, 0);
    keep(s);
    const int tiles = this->own_.tiles;
    BATON_ROLLED
    for (int n = 1; n < tiles; ++n) step(s, o, n);
    this->start_own_pv(o, tiles - 1, 0);
    this->start_own_pv(o, tiles - 1, 1);
    row_values all = softmax_.sums();
    this->finish(o, all);
  }

 private:
  BATON_FN void weigh(typename base::scores& s, int n) {
    softmax_.see(this->look_at(s, n));
    this->weigh_half(s, 0), this->weigh_half(s, 1);
  }
  BATON_FN void keep(const typename base::scores& s) { this->keep_half(s, 0), this->keep_half(s, 1); }

  /// Q * K^T of tile n, and P * V of the one before it. Slots are told by how many pieces ago theirs was started.
  BATON_FN void step(typename base::scores& s, typename base::sums& o, int n) {
    products_.template start_qk<0>(s), products_.template start_qk<1>(s);
    this->start_own_pv(o, n - 1, 0), this->start_own_pv(o, n - 1, 1);
    x_.template await_products<C.slot_chunks() + 2>();
    products_.release(4);
    x_.template await_products<2>(s);
    products_.release(3);
    weigh(s, n);
    x_.template await_products<1>();
    products_.release(2);
    x_.template await_products<0>(o);
    products_.release(1);
    this->rescale(o);
    keep(s);
  }
};

}  // namespace baton::attention_kernels
