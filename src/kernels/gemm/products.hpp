#pragma once
// How a consumer group makes its 64 rows of a tile: the products of bf16 and fp16.
#include "kernels/gemm/results.hpp"
#include "protocol/mma_commit.hpp"

namespace baton::gemm_kernels {

/// Frees the slots of a tile as they come. False: gave up.
template <class X, class ConsumerEnd>
BATON_FN bool pass_slots(X& x, ConsumerEnd& in, int steps) {
  const wait_site where{.where = "gemm.slot_filled"};
  wgmma_engine<scope::block> nothing;
  for (int k = 0; k < steps; ++k) {
    if (!in.consumer_wait(x, where)) return false;
    in.consumer_release(x, nothing);
  }
  return true;
}

template <config C, class X>
class plain_products {
  using pipeline = slot_pipeline<C>;
  using accumulators = typename X::template group_accumulators<C.columns>;

 public:
  BATON_FN plain_products(X& x, const params& p, int steps, int number)
      : x_{x}, p_{p}, steps_{steps}, number_{number}, in_{pipeline{block_plan<C>{}.barriers(x)}.consumer()} {}

  /// A tile that has no rows for this group. False: gave up.
  BATON_FN bool pass() { return pass_slots(x_, in_, steps_); }

  /// One tile's products: those of a step run while the slot of the next is waited for, those of the first steps while results
  /// of the tile before are stored. False: gave up.
  template <class Look>
  BATON_FN bool multiply(accumulators& acc, results<C, X>& before_these, Look look) {
    if constexpr (C.has_alpha())
      if (p_.b_is_rows_of_k)
        return multiply_by(acc, before_these, look,
                           [this](int slot) { return as_rows_of_k(b_slot<C>(x_, slot)); });
    return multiply_by(acc, before_these, look, [this](int slot) { return b_slot<C>(x_, slot); });
  }

 private:
  /// `b(slot)` is the operand in it.
  template <class Look, class B>
  BATON_FN bool multiply_by(accumulators& acc, results<C, X>& before_these, Look look, B b) {
    const wait_site where{.where = "gemm.slot_filled"};
    wgmma_engine<scope::block> awaited;
    if (steps_ == 0) x_.clear(acc);
    bool filled = true;
    int before = 0;
    for (int k = 0; k < steps_; ++k) {
      filled = in_.consumer_wait(x_, where);
      if (!filled) break;
      x_.start_product(acc, a_slot<C>(x_, in_.index()).from_row(number_ * group_rows), b(in_.index()), k > 0);
      before_these.store_part();
      x_.template await_products<1>();
      if (k > 0) in_.consumer_release_at(x_, awaited, before);
      before = in_.index();
      in_.step();
    }
    look();
    x_.template await_products<0>(acc);
    if (filled && steps_ > 0) in_.consumer_release_at(x_, awaited, before);
    return filled;
  }

  X& x_;
  const params& p_;
  int steps_, number_;
  typename pipeline::consumer_end in_;
};

template <config C, class X>
struct products_of {
  using type = plain_products<C, X>;
};

}  // namespace baton::gemm_kernels
