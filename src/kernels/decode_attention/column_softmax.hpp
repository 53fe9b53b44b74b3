#pragma once
// Softmax of rows that are columns of products: of keys by rows.
#include "kernels/attention/running_softmax.hpp"
#include "kernels/decode_attention/config.hpp"

namespace baton::decode_attention {

/// running_softmax of rows that are columns here. Its warps have a tile's keys among them.
template <config C, class X>
class column_softmax {
  using values = typename X::template column_values<C.rows_of_group()>;

 public:
  using scores = typename X::template group_accumulators<C.rows_of_group()>;

  BATON_FN column_softmax(X& x, float scale, int group)
      : x_{x}, scale_{scale}, group_{group}, most_{x.template of_columns<C.rows_of_group()>([](int) {
          return attention_kernels::no_score;
        })} {}

  /// A tile's scores. True: what was summed so far counts `factor()` from here on.
  BATON_FN bool see(const scores& s) {
    const float scale = scale_;
    const values largest = of_group(x_.largest_of_columns(s), [](float a, float b) { return larger(a, b); });
    const values now = x_.combined_columns(largest, most_, [scale](float top, float most) {
      return attention_kernels::raised_most(top, most, scale);
    });
    factor_ = x_.combined_columns(
        most_, now, [scale](float most, float raised) { return exp2_quickly((most - raised) * scale); });
    sums_ = x_.combined_columns(sums_, factor_, [](float sum, float by) { return sum * by; });
    most_ = now;
    return x_.any_column(factor_, [](float by) { return by != 1.0f; });
  }
  BATON_FN const values& factor() const { return factor_; }
  /// Scores become weights.
  BATON_FN void weigh(scores& s) {
    const float scale = scale_;
    const values low = x_.combined_columns(
        most_, most_, [scale](float most, float) { return most * scale - C.weight_bits(); });
    x_.exponentials_of_columns(s, scale, low, sums_);
  }

  BATON_FN const values& most() const { return most_; }
  BATON_FN values sums() {
    return of_group(x_.total_of_columns(sums_), [](float a, float b) { return a + b; });
  }

 private:
  /// f of what all warps of the group have. Memory of every other turn is written over: by the barrier between all have read.
  template <class F>
  BATON_FN values of_group(const values& own, F f) {
    constexpr int rows = C.rows_of_group();
    float* const at =
        block_plan<C>{}.of_warps(x_) + (turn_ * C.row_groups() + group_) * block_plan<C>::values_of_group;
    turn_ = 1 - turn_;
    x_.each_column(own, [&](int c, float v) { x_.write(at + row_warp<C>(x_) * rows + c, v); });
    sync_row_warps<C>(x_, group_);
    return x_.template of_columns<rows>([&](int c) {
      float v = x_.read(at + c);
      BATON_UNROLL
      for (int w = 1; w < C.row_warps(); ++w) v = f(v, x_.read(at + w * rows + c));
      return v;
    });
  }

  X& x_;
  float scale_;
  int group_, turn_ = 0;
  values most_, factor_, sums_{};
};

}  // namespace baton::decode_attention
