#pragma once
// What becomes of a product's sums before they are rounded: activation(alpha * acc + beta * C + bias), of groups and of e4m3
// row_weight * activation(acc + bias), of gated ones gate(acc + bias, acc_up + up_bias).
//
// Each step is a pass over a thread's accumulators, or is left out for all of them: what a product asks for is the same in all
// threads, and one long pass would be the longest for everybody.
#include <cmath>

#include "base/activation.hpp"
#include "base/convert.hpp"
#include "kernels/gemm/results.hpp"

namespace baton::gemm_kernels {

template <config C, class X>
class epilogue {
  using accumulators = typename X::template group_accumulators<C.columns>;

 public:
  BATON_FN epilogue(X& x, const params& p) : x_{x}, p_{p} {}

  /// `at`: of the warp's accumulators in C; the first of their columns is made by row `b_row` of b.
  BATON_FN void run(accumulators& acc, const result_rows& at, int b_row) {
    if constexpr (C.gated) {
      gate(acc, at.column, b_row);
    } else {
      add_to(acc, at, b_row);
      activate(acc);
      if constexpr (C.has_row_weights())
        if (p_.row_weights != nullptr) weigh(acc, at.row, at.rows);
    }
  }

 private:
  BATON_FN void add_to(accumulators& acc, const result_rows& at, int b_row) {
    if constexpr (C.has_alpha()) {
      if (p_.alpha != 1.0f || p_.beta != 0.0f || p_.bias != nullptr || p_.fp32_bias != nullptr)
        add(acc, at.row, at.column);
    } else if (p_.bias != nullptr || p_.fp32_bias != nullptr) {
      add_bias(acc, at.column, b_row);
    }
  }
  /// alpha * acc + beta * C + bias
  BATON_FN void add(accumulators& acc, int first_row, int first_column) {
    x_.each_pair(acc, [&](int row, int column, float& low, float& high) {
      low *= p_.alpha;
      high *= p_.alpha;
      row += first_row;
      column += first_column;
      if (row >= p_.m || column >= p_.n) return;
      if (p_.beta != 0.0f) {
        const two_floats before =
            two_at(static_cast<const out_value<C>*>(p_.c_rows), std::int64_t{row} * p_.n + column);
        low = std::fma(p_.beta, before.low, low);
        high = std::fma(p_.beta, before.high, high);
      }
      if (p_.fp32_bias != nullptr) add_two(two_floats_at(p_.fp32_bias, column), low, high);
      if (p_.bias != nullptr) add_two(two_at(static_cast<const out_value<C>*>(p_.bias), column), low, high);
    });
  }
  /// acc + bias, of the tile's group. What rows of nobody become is not stored.
  BATON_FN void add_bias(accumulators& acc, int first_column, int b_row) {
    x_.each_pair(acc, [&](int, int column, float& low, float& high) {
      if (first_column + column >= p_.n) return;
      const int of_b = b_row + column;
      if (p_.fp32_bias != nullptr) add_two(two_floats_at(p_.fp32_bias, of_b), low, high);
      if (p_.bias != nullptr) add_two(two_at(static_cast<const bias_value<C>*>(p_.bias), of_b), low, high);
    });
  }
  /// gate(gate's half + bias, up's half + up_bias), in gate's half
  BATON_FN void gate(accumulators& acc, int first_column, int b_row) {
    if (p_.bias != nullptr || p_.up_bias != nullptr) add_gate_biases(acc, first_column, b_row);
    const gate_factors factors = factors_of(p_.gate);
    x_.fold_halves(acc, [&](float gate, float up) { return gated(gate, up, factors); });
  }
  BATON_FN void add_gate_biases(accumulators& acc, int first_column, int b_row) {
    x_.each_pair(acc, [&](int, int column, float& low, float& high) {
      const bool is_up = column >= C.result_columns();
      if (is_up) column -= C.result_columns();
      const void* const bias = is_up ? p_.up_bias : p_.bias;
      if (bias == nullptr || first_column + column >= p_.n) return;
      add_two(two_at(static_cast<const bias_value<C>*>(bias), b_row + column), low, high);
    });
  }
  BATON_FN void activate(accumulators& acc) {
    if (p_.act == activation::relu) {
      x_.each_pair(acc, [](int, int, float& low, float& high) {
        low = relu(low);
        high = relu(high);
      });
    } else if (p_.act != activation::none) {
      const sigmoid_factors factors = factors_of(p_.act);
      x_.each_pair(acc, [&](int, int, float& low, float& high) {
        low = by_sigmoid(low, factors);
        high = by_sigmoid(high, factors);
      });
    }
  }
  /// The group has `rows` of the warp's; there may be no memory behind them.
  BATON_FN void weigh(accumulators& acc, int first_row, int rows) {
    const float* const weights = p_.row_weights + first_row;
    x_.scale_rows(acc, x_.of_rows([&](int row) { return row < rows ? x_.read(weights + row) : 0.0f; }));
  }

  BATON_FN static void add_two(const two_floats& two, float& low, float& high) {
    low += two.low;
    high += two.high;
  }

  /// Two neighbours; the first has an even number.
  BATON_FN two_floats two_floats_at(const float* from, std::int64_t index) const {
    struct alignas(8) pair {
      float low, high;
    };
    const pair both = x_.read(reinterpret_cast<const pair*>(from + index));
    return {both.low, both.high};
  }
  template <class T>
  BATON_FN two_floats two_at(const T* from, std::int64_t index) const {
    if constexpr (C.float_out)
      return two_floats_at(from, index);
    else
      return widen_two<T>(x_.read(reinterpret_cast<const std::uint32_t*>(from + index)));
  }

  X& x_;
  const params& p_;
};

}  // namespace baton::gemm_kernels
