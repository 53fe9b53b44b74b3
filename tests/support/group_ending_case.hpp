#pragma once
// What products of groups, and those of e4m3, end in, and what must come out, for both devices.
#include <cmath>
#include <string>
#include <vector>

#include "tests/support/epilogue_case.hpp"
#include "tests/support/scaled_gemm_case.hpp"

namespace baton::test {

inline constexpr float not_written = -1;
/// fp32 sums of k up to 300 terms, and the product of two scales: each rounding is at most 2^-24 of the terms' magnitudes.
inline constexpr double roundings_of_fp32 = 304 * 0x1p-24;

/// Groups without rows, a tile's worth and more, and rows of nobody.
inline constexpr int some_counts[] = {3, 0, 130, 1};

template <class Value, class Case>
std::vector<Value> unwritten(const Case& g) {
  return std::vector<Value>(g.group.size() * static_cast<std::size_t>(g.n), Value{not_written});
}

struct group_ending {
  bias_kind bias = bias_kind::none;
  activation act = activation::none;
  bool weighs = false;  // rows
};
inline std::string text(const group_ending& e) {
  return std::string{name(e.act)} + ", bias " + std::to_string(static_cast<int>(e.bias)) +
         (e.weighs ? ", weights" : "");
}
/// Without weights of rows they are endings of a dense product, too.
inline std::vector<group_ending> group_endings(bool weighs = true) {
  using enum activation;
  return {{bias_kind::own, none, false},   {bias_kind::fp32, none, weighs}, {bias_kind::none, relu, false},
          {bias_kind::none, none, weighs}, {bias_kind::own, relu, weighs},  {bias_kind::fp32, silu, weighs},
          {bias_kind::own, gelu, weighs}};
}

/// Biases differ from group to group, weights from row to row; those of a group without rows, and of rows of nobody, are NaN. All
/// are multiples of a quarter that every type holds: bias_of, and weights from -1.5 to 1.5.
template <class Value>
struct ending_values {
  std::vector<Value> own;             // [groups, n]
  std::vector<float> fp32;            // [groups, n]
  std::vector<float> weights;         // [max_rows]
  std::vector<double> bias_of_group;  // [groups, n]

  /// `Case` has counts, group and n.
  template <class Case>
  explicit ending_values(const Case& g) {
    for (std::size_t i = 0; i < g.counts.size() * static_cast<std::size_t>(g.n); ++i) {
      const std::size_t of = i / static_cast<std::size_t>(g.n), column = i % static_cast<std::size_t>(g.n);
      const float bias = g.counts[of] > 0 ? bias_of(column + 5 * of) : std::nanf("");
      own.push_back(Value{bias});
      fp32.push_back(bias);
      bias_of_group.push_back(static_cast<double>(bias));
    }
    for (std::size_t r = 0; r < g.group.size(); ++r)
      weights.push_back(g.group[r] < 0 ? std::nanf("")
                                       : 0.25f * static_cast<float>(static_cast<int>(r * 5 % 13) - 6));
  }
  /// `p` ends so: a problem as users give it, or what a kernel takes.
  template <class Problem>
  void give_to(Problem& p, const group_ending& e) const {
    p.bias = e.bias == bias_kind::own ? own.data() : nullptr;
    p.fp32_bias = e.bias == bias_kind::fp32 ? fp32.data() : nullptr;
    p.act = e.act;
    if constexpr (requires { p.row_weights; }) p.row_weights = e.weighs ? weights.data() : nullptr;
  }
};

/// A sum, and by how much it may be off.
struct ended_sum {
  double sum, error = 0;
};
/// Between what c may be at a row and a column. The slope of no activation is more than 1.13; a weight is multiplied with one
/// rounding, as the bias is added.
struct ended_range {
  double right, least, most;
};
template <class Value>
ended_range range_of(const group_ending& e, const ending_values<Value>& values, const ended_sum& of,
                     std::size_t row, std::size_t group, std::size_t column, std::size_t n) {
  const double bias = e.bias == bias_kind::none ? 0 : values.bias_of_group[group * n + column];
  const double weight = e.weighs ? static_cast<double>(values.weights[row]) : 1;
  const activated_value value = exactly_activated(e.act, of.sum + bias);
  const double of_sum =
      of.error == 0 ? 0 : of.error + (std::abs(of.sum) + of.error + std::abs(bias)) * 0x1p-24;
  double error = value.error + 1.13 * of_sum;
  if (error > 0) error += (std::abs(value.right) + error) * 0x1p-24;
  error *= std::abs(weight);
  const double right = value.right * weight;
  const auto rounded = [](double v) {
    return static_cast<double>(static_cast<float>(Value{static_cast<float>(v)}));
  };
  return {right, rounded(right - error), rounded(right + error)};  // rounding is monotonic
}

/// The first wrong value of c, which held `before` where no group has a row; empty if there is none. `sum_of(row, column)` is an
/// ended_sum.
template <class Value, class Case, class SumOf>
std::string wrong_ending(const group_ending& e, const ending_values<Value>& values, const Case& g,
                         const std::vector<Value>& c, float before, SumOf sum_of) {
  const auto n = static_cast<std::size_t>(g.n);
  for (std::size_t r = 0; r < g.group.size(); ++r) {
    for (std::size_t j = 0; j < n; ++j) {
      const auto found = static_cast<double>(static_cast<float>(c[r * n + j]));
      ended_range expected{before, before, before};
      if (g.group[r] >= 0)
        expected = range_of(e, values, sum_of(static_cast<int>(r), static_cast<int>(j)), r,
                            static_cast<std::size_t>(g.group[r]), j, n);
      if (found >= expected.least && found <= expected.most) continue;
      return text(e) + ": c[" + std::to_string(r) + ", " + std::to_string(j) +
             "] = " + std::to_string(found) + ", expected " + std::to_string(expected.right);
    }
  }
  return "";
}
template <class Value>
std::string wrong_ending(const group_ending& e, const ending_values<Value>& values,
                         const typed_grouped_case<Value>& g, const std::vector<Value>& c, float before) {
  return wrong_ending(e, values, g, c, before,
                      [&](int row, int column) { return ended_sum{g.product(g.b, row, column)}; });
}
/// `relative` times the sum of a value's terms' magnitudes a sum may be off by.
inline std::string wrong_ending(const group_ending& e, const ending_values<bfloat16>& values,
                                const scaled_gemm_case& g, const std::vector<bfloat16>& c, float before,
                                double relative = 0) {
  return wrong_ending(e, values, g, c, before, [&](int row, int column) {
    const scaled_gemm_case::value v = g.at(row, column);
    return ended_sum{v.sum, v.weight * relative};
  });
}

}  // namespace baton::test
