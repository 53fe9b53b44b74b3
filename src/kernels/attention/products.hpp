#pragma once
// A consumer group's products with slots of the ring, in pieces: a piece is what one slot holds.
#include "kernels/attention/softmax.hpp"
#include "protocol/mma_commit.hpp"

namespace baton::attention_kernels {

/// What a consumer waits for.
enum class wait_of : std::uint32_t { none, q, slot, rows, place, tile };

template <config C, class X>
class group_products {
  using T = value<C>;

 public:
  using scores = typename X::template group_accumulators<block_keys>;
  using sums = typename X::template group_accumulators<block_columns>;
  using weights = typename X::template group_results<v_slot_keys, T>;
  /// Products of a piece of Q * K^T; a piece of P * V is one.
  static constexpr int qk_products = 2;

  BATON_FN group_products(X& x, const params& p)
      : x_{x}, slots_{slot_pipeline<C>{block_plan<C>{}.slot_barriers(x)}.consumer()} {
    if constexpr (C.q_in_registers > 0) read_q(p);
    await(wait_of::q, [&](const wait_site& where) {
      return x.template mbarrier_wait_quietly<scope::block>(block_plan<C>{}.q_filled(x), parity::even, where);
    });
  }

  /// False: a wait has given up. What is made from there on is not meant for anybody.
  BATON_FN bool going() const { return late_ == wait_of::none; }
  /// Waits, but behind one that gave up. Products in flight leave no registers for telling of it: that comes in the end.
  template <class Wait>
  BATON_FN void await(wait_of which, Wait wait) {
    if (going() && !wait(site_of(which))) late_ = which;
  }
  BATON_FN void report() {
    if (!going()) x_.report_late(site_of(late_));
  }

  /// Starts piece `i` of Q * K^T.
  template <int i>
  BATON_FN void start_qk(scores& s) {
    await_slot();
    const tile<C> k = slot_tile<C>(x_, slots_.index());
    start_chunk<2 * i>(s, k);
    start_chunk<2 * i + 1>(s, k.from_row(block_keys));
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
    x_.start_product(o, tile_columns<T, v_slot_keys>{p_tile<C>(x_, group()), i * v_slot_keys}, v_rows(),
                     true);
    slots_.step();
  }
  /// Of the slot whose piece was started `ago` pieces ago: 1 is the last one.
  BATON_FN void release(int ago) {
    awaited_engine<scope::block> awaited;
    slots_.consumer_release_passed(x_, awaited, ago);
  }

 private:
  BATON_FN int group() { return first_row_of(x_) / group_rows; }
  BATON_FN static wait_site site_of(wait_of which) {
    switch (which) {
      case wait_of::q:
        return {.where = "attention.q_filled"};
      case wait_of::rows:
        return {.where = "attention.rows_given"};
      case wait_of::place:
        return {.where = "attention.p_free"};
      case wait_of::tile:
        return {.where = "attention.p_given"};
      default:
        return {.where = "attention.slot_filled"};
    }
  }
  BATON_FN void await_slot() {
    await(wait_of::slot, [&](const wait_site& where) { return slots_.consumer_wait_quietly(x_, where); });
  }
  BATON_FN rows_of_k<T, v_slot_keys> v_rows() { return {slot_tile<C>(x_, slots_.index())}; }
  template <int chunk>
  BATON_FN void start_chunk(scores& s, const tile<C>& k) {
    if constexpr (chunk < C.q_in_registers)
      x_.start_product(s, q_[chunk], k, chunk > 0);
    else
      x_.start_product(
          s, x_.prepare_anew(q_tile<C>(x_, group())).from_row((chunk - C.q_in_registers) * group_rows),
          x_.prepare_anew(k), chunk > 0);
  }
  BATON_FN void read_q(const params& p) {
    const item w = kept_item<C>(x_);
    const int first = first_row_of(x_);
    const T* at = static_cast<const T*>(p.q_rows) + (w.row + first) * p.q_row + w.head * C.head_dim;
    BATON_UNROLL
    for (int c = 0; c < C.q_in_registers; ++c)
      x_.read_pairs(q_[c], [&](int row, int column) {
        return first + row < w.rows ? at + row * p.q_row + c * tile<C>::columns + column : nullptr;
      });
  }

  X& x_;
  typename slot_pipeline<C>::consumer_end slots_;
  wait_of late_ = wait_of::none;
  typename X::template group_results<tile<C>::columns, T> q_[larger(C.q_in_registers, 1)];
};

}  // namespace baton::attention_kernels
