#pragma once
// How a consumer group makes its 64 rows of a tile of e4m3 with scales:
//
//   acc = sum over blocks j of 128 values of k of a_scale[row, j] * b_scale[column / 128, j] * (A_j * B_j^T)
//
// Tensor cores add up one block of 128 columns and no more; what they give is scaled and added in fp32.
//
//   tensor cores   | left half of slot s       | right half of slot s                       | left half of slot s + 1
//   group          | waits                | acc += | waits for slot s + 1, reads its scales | acc += | ...
//   other group      acc += |   waits ...                the same, half a turn later: each fills the other's gaps
//
// Where the time goes, and what was tried: docs/decisions/0031-scaled-products.md.
#include "kernels/gemm/products.hpp"

namespace baton::gemm_kernels {

template <config C, class X>
class scaled_products {
  using pipeline = slot_pipeline<C>;
  using accumulators = typename X::template group_accumulators<C.columns>;
  using part = typename X::template group_accumulators<smaller(C.columns, scaled_columns)>;
  using row_values = typename X::row_values;
  static constexpr int parts = slot_scales<C>::b_blocks;

 public:
  BATON_FN scaled_products(X& x, const params&, int steps, int number)
      : x_{x}, steps_{steps}, number_{number}, in_{pipeline{block_plan<C>{}.barriers(x)}.consumer()} {}

  /// A tile that has no rows for this group. False: gave up.
  BATON_FN bool pass() { return pass_slots(x_, in_, steps_); }

  /// One tile's products; `look` is called while the first slot's last product runs. A slot that is there already is seen in the
  /// inner loop; the wait for one that is not stands outside, so that the loop is short and in one piece. False: gave up.
  template <class Look>
  BATON_FN bool multiply(accumulators& acc, results<C, X>&, Look look) {
    x_.clear(acc);
    if (steps_ == 0) {
      look();
      return true;
    }
    return multiply_on(acc, look);
  }

  /// For the slot that comes next.
  BATON_FN bool wait() { return in_.consumer_wait(x_, {.where = "gemm.slot_filled"}); }
  BATON_FN int slot() const { return in_.index(); }

 private:
  struct slot_operands {
    typename X::template prepared_tile<float8_e4m3> a, b;
  };
  /// For each part the products of a row's scale and that of B.
  struct scales {
    row_values of[parts];
  };

  /// The last product of a slot runs while the next slot is looked for.
  template <class Look>
  BATON_FN bool multiply_on(accumulators& acc, Look look) {
    if (!wait()) return false;
    bool filled = true;
    part product;
    scales by = scales_of(in_.index());
    all_but_last(acc, product, operands_of(in_.index()), by);
    look();
    int before = in_.index();
    in_.step();
    for (int k = 1; k < steps_ && filled;) {
      filled = wait();
      BATON_ROLLED
      for (; k < steps_; ++k) {
        const slot_operands slot = operands_of(in_.index());
        if (!in_.consumer_sees(x_)) break;
        const scales next = scales_of(in_.index());
        last(acc, product, before, by);
        by = next;
        before = in_.index();
        all_but_last(acc, product, slot, by);
        in_.step();
      }
    }
    last(acc, product, before, by);
    return filled;
  }

  BATON_FN slot_operands operands_of(int slot) {
    return {x_.prepare(a_slot<C>(x_, slot).from_row(number_ * group_rows)), x_.prepare(b_slot<C>(x_, slot))};
  }
  BATON_FN scales scales_of(int slot) {
    const slot_scales<C>& from = block_plan<C>{}.scales(x_)[slot];
    row_values rows;
    x_.read_rows(rows, from.a + number_ * group_rows + x_.warp_of_group() * group_warp_rows);
    scales by;
    BATON_UNROLL
    for (int i = 0; i < parts; ++i) {
      const float of_b = x_.read(from.b + i);
      by.of[i] = x_.mapped(rows, [&](float of_row) { return of_row * of_b; });
    }
    return by;
  }

  /// Leaves the last product of the slot running.
  BATON_FN void all_but_last(accumulators& acc, part& product, const slot_operands& slot, const scales& by) {
    BATON_UNROLL
    for (int i = 0; i < parts; ++i) {
      x_.start_product(product, slot.a, slot.b.from_row(i * scaled_columns), false);
      if (i + 1 == parts) return;
      x_.template await_products<0>(product);
      x_.add_scaled(acc, i * scaled_columns, product, by.of[i]);
    }
  }
  /// That one, and slot `slot` is free.
  BATON_FN void last(accumulators& acc, part& product, int slot, const scales& by) {
    x_.template await_products<0>(product);
    in_.consumer_release_at(x_, awaited_, slot);
    x_.add_scaled(acc, (parts - 1) * scaled_columns, product, by.of[parts - 1]);
  }

  X& x_;
  int steps_, number_;
  typename pipeline::consumer_end in_;
  wgmma_engine<scope::block> awaited_;
};

template <config C, class X>
requires(C.block_scaled()) struct products_of<C, X> {
  using type = scaled_products<C, X>;
};

}  // namespace baton::gemm_kernels
