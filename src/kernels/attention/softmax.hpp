#pragma once
// Softmax of scores that come tile by tile: what each row's weights are taken against, and their sum.
//
//   weight of key j = 2^(scale * (score_j - most)), and O = sum of weight_j * v_j / sum of weight_j
//
// `most` is the largest score so far, or was: it is only raised when a score is more than 2^8 times as heavy, so that what has
// been summed is seldom scaled again. (FlashAttention-4's conditional rescaling.)
#include <cmath>

#include "base/exp2.hpp"
#include "kernels/attention/items.hpp"

namespace baton::attention_kernels {

/// Below every score: a row that has seen no key.
inline constexpr float least_score = -1e30f;
/// By how many powers of two a weight may exceed 1.
inline constexpr float most_growth = 8;

template <config C, class X>
class softmax {
  using row_values = typename X::row_values;
  using row_sums = typename X::row_sums;
  using scores = typename X::template group_accumulators<C.block_keys()>;

 public:
  BATON_FN softmax(X& x, const params& p, const consumer_item& own)
      : x_{x}, p_{p}, own_{own}, most_{x.of_rows([](int) { return least_score; })}, sums_{} {}

  /// Caps scores, and takes those away that a row does not see.
  BATON_FN void prepare(scores& s, int number) {
    if constexpr (C.softcap)
      x_.each_pair(s, [&](int, int, float& v0, float& v1) {
        v0 = tanh_quickly(v0 * p_.cap_scale), v1 = tanh_quickly(v1 * p_.cap_scale);
      });
    if (own_.plain.have(number)) return;
    const item w = kept_item<C>(x_);
    const int key = w.tile_of(number) * C.tile_keys() + x_.cluster_block() * C.block_keys();
    const int first_row = own_.first_row;
    x_.each_pair(s, [&](int row, int column, float& v0, float& v1) {
      const int first = first_seen(p_, w, first_row + row) - key - column;
      const int end = end_seen(p_, w, first_row + row) - key - column;
      v0 = first <= 0 && end > 0 ? v0 : -INFINITY;
      v1 = first <= 1 && end > 1 ? v1 : -INFINITY;
    });
  }
  BATON_FN row_values largest(const scores& s) { return x_.largest_values(s); }

  /// The tile's largest scores. What was summed so far counts `factor()` from here on.
  BATON_FN void see(const row_values& largest) {
    const row_values now = x_.combined(largest, most_, [this](float top, float most) {
      return (top - most) * p_.scale > most_growth ? top : most;
    });
    factor_ = x_.combined(
        most_, now, [this](float most, float raised) { return exp2_quickly((most - raised) * p_.scale); });
    x_.scale_sums(sums_, factor_);
    most_ = now;
  }
  BATON_FN const row_values& factor() const { return factor_; }
  BATON_FN bool rescales() {
    return x_.any_row(factor_, [](float f) { return f != 1.0f; });
  }

  /// Scores of columns `first` to first + n - 1 become weights.
  template <int first, int n>
  BATON_FN void weigh(scores& s) {
    const row_values low = x_.mapped(most_, [this](float most) { return most * p_.scale; });
    x_.template exponentials<first, n>(s, p_.scale, low, sums_);
  }

  /// Of this block's keys.
  BATON_FN row_values sums() { return x_.total(sums_); }

  /// What O has to be multiplied by, where `sums` are of all keys. They become the log-sum-exp.
  BATON_FN row_values finish(row_values& sums) {
    constexpr float log2_e = 1.4426950408889634f, ln_2 = 0.6931471805599453f;
    const float sink = p_.sinks != nullptr ? x_.read(p_.sinks + kept_item<C>(x_).head) * log2_e : -INFINITY;
    const float scale = p_.scale;
    const row_values by = x_.combined(sums, most_, [=](float sum, float most) {
      const whole_sum whole = with_sink(sum, most * scale, sink);
      return sum == 0.0f ? 0.0f : whole.share / whole.all;
    });
    sums = x_.combined(sums, most_, [=](float sum, float most) {
      const whole_sum whole = with_sink(sum, most * scale, sink);
      return sum == 0.0f ? -INFINITY : (whole.top + log2f(whole.all)) * ln_2;
    });
    return by;
  }

 private:
  /// All weights, a sink's among them, against 2^top: there the sum so far counts `share`.
  struct whole_sum {
    float top, share, all;
  };
  BATON_FN static whole_sum with_sink(float sum, float low, float sink) {
    const float top = low > sink ? low : sink, share = exp2_quickly(low - top);
    return {top, share, sum * share + exp2_quickly(sink - top)};
  }

  X& x_;
  const params& p_;
  consumer_item own_;
  row_values most_, factor_;
  row_sums sums_;
};

}  // namespace baton::attention_kernels
