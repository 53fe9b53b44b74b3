#pragma once
// Softmax of scores that come tile by tile: what each row's weights are taken against, and their sum.
//
//   weight of key j = 2^(scale * (score_j - most)), and O = sum of weight_j * v_j / sum of weight_j
//
// `most` is the largest score so far, or was: it is only raised when a score is more than 2^8 times as heavy, so that what has
// been summed is seldom scaled again. (FlashAttention-4's conditional rescaling.)
#include "base/exp2.hpp"
#include "exec/group_mma.hpp"

namespace baton::attention_kernels {

/// Below every score: a row that has seen no key.
inline constexpr float no_score = -1e30f;

/// What a row's weights are taken against from here on, as its scores, of which `top` is the largest, are seen.
BATON_FN float raised_most(float top, float most, float scale) {
  constexpr float most_growth = 8;  // by how many powers of two a weight may exceed 1
  return (top - most) * scale > most_growth ? top : most;
}

/// Of a consumer warp's rows; `scale` is that of scores, to base 2.
template <class X>
class running_softmax {
  using row_values = typename X::row_values;

 public:
  BATON_FN running_softmax(X& x, float scale)
      : x_{x}, scale_{scale}, most_{x.of_rows([](int) { return no_score; })}, sums_{} {}

  /// A tile's largest scores. What was summed so far counts `factor()` from here on.
  BATON_FN void see(const row_values& largest) {
    const float scale = scale_;
    const row_values now =
        x_.combined(largest, most_, [scale](float top, float most) { return raised_most(top, most, scale); });
    factor_ = x_.combined(
        most_, now, [scale](float most, float raised) { return exp2_quickly((most - raised) * scale); });
    x_.scale_sums(sums_, factor_);
    most_ = now;
  }
  BATON_FN const row_values& factor() const { return factor_; }
  BATON_FN bool rescales() {
    return x_.any_row(factor_, [](float f) { return f != 1.0f; });
  }
  /// Scores of columns `first` to first + n - 1 become weights.
  template <int first, int n, class Scores>
  BATON_FN void weigh(Scores& s) {
    const float scale = scale_;
    const row_values low = x_.mapped(most_, [scale](float most) { return most * scale; });
    x_.template exponentials<first, n>(s, scale, low, sums_);
  }

  BATON_FN const row_values& most() const { return most_; }
  BATON_FN row_values sums() { return x_.total(sums_); }

 private:
  X& x_;
  float scale_;
  row_values most_, factor_;
  typename X::row_sums sums_;
};

}  // namespace baton::attention_kernels
