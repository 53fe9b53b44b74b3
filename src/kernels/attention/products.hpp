#pragma once
// A consumer group's products with slots of the ring, in pieces: a piece is what one slot holds.
#include "kernels/attention/softmax.hpp"
#include "kernels/attention/waits.hpp"
#include "protocol/mma_commit.hpp"

namespace baton::attention_kernels {

template <config C, class X>
class group_products {
  using T = value<C>;

 public:
  using scores = typename X::template group_accumulators<C.block_keys()>;
  using sums = typename X::template group_accumulators<C.block_columns()>;
  using weights = typename X::template group_results<C.v_slot_keys(), T>;

  BATON_FN group_products(X& x, const consumer_item& own)
      : x_{x}, own_{own}, slots_{slot_pipeline<C>{block_plan<C>{}.slot_barriers(x)}.consumer()} {}

  /// Before all products: the chunks of Q that stay in registers.
  BATON_FN void take_q() {
    BATON_UNROLL
    for (int i = 0; i < C.q_slots(); ++i) {
      await_slot();
      x_.take_rows(slot_tile<C>(x_, slots_.index()).from_row(own_.first_row), q_[i]);
      slots_.step();
      release(1);
    }
  }

  /// wait(barrier, parity), as protocols take it.
  template <scope Reach>
  BATON_FN auto wait_for(wait_of what) {
    return wait_or_note<C, Reach>(x_, what);
  }
  /// In the end. True: a wait of the block was late, which is told of here.
  BATON_FN bool is_late() { return report_if_late<C>(x_); }

  /// The first tile's, when that piece of Q is there.
  template <int i>
  BATON_FN void start_first_qk(scores& s) {
    constexpr int piece = i - C.q_in_registers / C.slot_chunks();
    if constexpr (piece >= 0)
      wait_for<scope::block>(wait_of::q)(block_plan<C>{}.q_filled(x_) + piece, parity::even);
    start_qk<i>(s);
  }
  /// Starts piece `i` of Q * K^T.
  template <int i>
  BATON_FN void start_qk(scores& s) {
    await_slot();
    const tile<C> k = slot_tile<C>(x_, slots_.index());
    start_chunk<C.slot_chunks() * i>(s, k);
    if constexpr (C.slot_chunks() == 2) start_chunk<2 * i + 1>(s, k.from_row(C.block_keys()));
    slots_.step();
  }
  /// Starts a piece of P * V with own weights.
  BATON_FN void start_pv(sums& o, const weights& p, bool add) {
    await_slot();
    x_.start_product(o, p, v_rows(), add);
    slots_.step();
  }
  /// The same with those of the other block's keys: half `i` of its tile.
  BATON_FN void start_pv_of_other(sums& o, int i) {
    await_slot();
    x_.start_product(o, tile_columns<T, C.v_slot_keys()>{p_tile<C>(x_, own_.group()), i * C.v_slot_keys()},
                     v_rows(), true);
    slots_.step();
  }
  /// Of the slot whose piece was started `ago` pieces ago: 1 is the last one.
  BATON_FN void release(int ago) {
    wgmma_engine<scope::block> awaited;
    slots_.consumer_release_passed(x_, awaited, ago);
  }

 private:
  BATON_FN void await_slot() { slots_.consumer_wait_by(wait_for<scope::block>(wait_of::slot)); }
  BATON_FN rows_of_k<T, C.v_slot_keys()> v_rows() { return {slot_tile<C>(x_, slots_.index())}; }
  template <int chunk>
  BATON_FN void start_chunk(scores& s, const tile<C>& k) {
    if constexpr (chunk < C.q_in_registers)
      x_.start_product(s, q_[chunk], k, chunk > 0);
    else
      x_.start_product(
          s, x_.prepare_anew(q_tile<C>(x_, own_.group())).from_row((chunk - C.q_in_registers) * group_rows),
          x_.prepare_anew(k), chunk > 0);
  }

  X& x_;
  consumer_item own_;
  typename slot_pipeline<C>::consumer_end slots_;
  typename X::template group_results<tile<C>::columns, T> q_[larger(C.q_in_registers, 1)];
};

}  // namespace baton::attention_kernels
