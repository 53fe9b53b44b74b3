#pragma once
// A consumer group of one of two blocks: it scores its block's 64 of a tile's 128 keys for its 64 rows, has half of O's columns
// of them, and swaps with its counterpart the largest scores (a warp each) and P (the group).
//
//   tensor cores             the group                                                          waits for
//   P V(t-1) c, d            start Q K(t+1)... a; release V c; b; release V d; the place of P    slots of K
//   Q K(t) a b c d           start c, d, P V(t-1) a, b (own P); send P; release K                the place of P over there
//   P V(t-1) a, b            S: largest scores, give them; start P V(t-1) c                      the other's P
//   P V(t-1) b, c            take the largest; weights of 32 keys; start d; of the other 32      the other's largest scores
#include "kernels/attention/consume.hpp"
#include "protocol/row_exchange.hpp"

namespace baton::attention_kernels {

template <config C, class X>
class paired_role : consume_base<C, X> {
  using base = consume_base<C, X>;
  using base::x_, base::p_, base::own_, base::products_, base::softmax_, base::weights_;
  using typename base::row_values;
  using typename base::scores;
  using typename base::sums;

 public:
  BATON_FN paired_role(X& x, const params& p, const consumer_item& own)
      : base{x, p, own},
        rows_{x,
              x.reach(1 - x.cluster_block()),
              block_plan<C>{}.row_values(x) + own.first_row,
              block_rows,
              block_plan<C>{}.row_values_filled(x) + own.warp(),
              consumer_warps},
        tiles_{x,
               1 - x.cluster_block(),
               block_plan<C>{}.p_filled(x) + own.group(),
               block_plan<C>{}.p_free(x) + own.group(),
               group_rows * tile<C>::row_bytes,
               own.warp() % group_warps == 0},
        other_{x.reach(1 - x.cluster_block())} {}

  BATON_FN void run() {
    scores s;
    sums o;
    products_.take_q();
    start_qk(s);
    x_.template await_products<0>(s);
    BATON_UNROLL
    for (int i = C.k_slots(); i > 0; --i) products_.release(i);
    const row_values own = this->look_at(s, 0);
    rows_.give(0, own);
    see_both(own, 0);
    weigh_and_keep(s, 0);
    weigh_and_keep(s, 1);
    const int all = own_.tiles;
    if (all > 1) {
      step<true>(s, o, 1);
      BATON_ROLLED
      for (int n = 2; n < all; ++n) step<false>(s, o, n);
      x_.template await_products<0>(o);
      tiles_.release();
      products_.release(2), products_.release(1);
    }
    make_last(o, all - 1);
  }

 private:
  BATON_FN void start_qk(scores& s) {
    products_.template start_first_qk<0>(s), products_.template start_first_qk<1>(s);
    products_.template start_first_qk<2>(s), products_.template start_first_qk<3>(s);
  }
  /// A wait for the other block.
  BATON_FN auto wait_for(wait_of what) { return products_.template wait_for<C.swap_reach>(what); }
  BATON_FN row_values taken(int n) {
    row_values other;
    rows_.take(n, other, wait_for(wait_of::rows));
    return other;
  }
  BATON_FN void await_tile(int n) { tiles_.await(n, wait_for(wait_of::tile)); }
  BATON_FN void see_both(const row_values& own, int n) {
    softmax_.see(x_.combined(own, taken(n), [](float a, float b) { return larger(a, b); }));
  }
  BATON_FN void weigh_and_keep(scores& s, int half) {
    this->weigh_half(s, half);
    this->keep_half(s, half);
  }
  /// P of a tile to the other block, in the order in which its slots of V come.
  BATON_FN void send(int n) {
    tiles_.acquire(n, wait_for(wait_of::place));
    const bool turned = is_turned<C>(p_, own_.plain, n);
    const tile<C> place = p_tile<C>(x_, 0).from_row(own_.first_row);
    BATON_UNROLL
    for (int half = 0; half < 2; ++half) {
      const auto put = [&](int row, int chunk, const vec16& v) {
        x_.store_counted(other_, place.chunk(row, half * 4 + chunk), v, tiles_.filled());
      };
      turned ? x_.each_turned_chunk(weights_[half], put) : x_.each_chunk(weights_[half], put);
    }
  }
  /// Q * K^T of tile n, P * V of the one before it, of which two pieces still run at the end, those of the tile before that at
  /// the beginning. Products are told by how many may still run, slots by how many pieces ago theirs was started.
  template <bool first>
  BATON_FN void step(scores& s, sums& o, int n) {
    products_.template start_qk<0>(s);
    if constexpr (!first) {
      x_.template await_products<3>();
      products_.release(3);
    }
    products_.template start_qk<1>(s);
    if constexpr (!first) {
      x_.template await_products<4>();
      products_.release(3);
      tiles_.release();
    }
    products_.template start_qk<2>(s), products_.template start_qk<3>(s);
    this->start_own_pv(o, n - 1, 0);
    x_.template await_products<7>();
    products_.release(5);
    this->start_own_pv(o, n - 1, 1);
    send(n - 1);
    x_.template await_products<6>();
    products_.release(5);
    x_.template await_products<4>();
    products_.release(4);
    x_.template await_products<2>(s);
    products_.release(3);
    make_weights(s, o, n);
    this->rescale(o);
  }
  /// Of tile n, while P * V of the one before it is made.
  BATON_FN void make_weights(scores& s, sums& o, int n) {
    const row_values own = this->look_at(s, n);
    rows_.give(n, own);
    await_tile(n - 1);
    products_.start_pv_of_other(o, 0);
    x_.template await_products<2>();
    products_.release(3);
    see_both(own, n);
    weigh_and_keep(s, 0);
    products_.start_pv_of_other(o, 1);
    x_.template await_products<2>();
    products_.release(3);
    weigh_and_keep(s, 1);
  }
  BATON_FN void make_last(sums& o, int n) {
    send(n);
    this->start_own_pv(o, n, 0);
    this->start_own_pv(o, n, 1);
    row_values all = softmax_.sums();
    rows_.give(n + 1, all);
    await_tile(n);
    products_.start_pv_of_other(o, 0);
    products_.start_pv_of_other(o, 1);
    all = x_.combined(all, taken(n + 1), [](float a, float b) { return a + b; });
    this->finish(o, all);
  }

  row_swap<X> rows_;
  tile_swap<X> tiles_;
  typename X::reached_block other_;
};

}  // namespace baton::attention_kernels
