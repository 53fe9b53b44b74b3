#pragma once
// Experts with biases, another gate and router weights, and what must come out, for both devices.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "baton/expert_mlp.hpp"

namespace baton::test {

/// Products of gate and up are exact in fp32: rows are integers from -2 to 2, weights of gate and up quarters from -1/2 to 1/2,
/// of down integers, scales 1, biases multiples of a quarter. The second expert has no rows, and biases that are NaN.
template <class Value>
struct biased_experts {
  static constexpr bool is_fp8 = std::is_same_v<Value, float8_e4m3>;
  static constexpr float before = -1;  // of what `out` holds
  static constexpr int experts = 3, hidden = 128, intermediate = 32, max_rows = 80;
  std::vector<std::int32_t> counts = {5, 0, 70}, offsets = {1, 6, 8, 78};
  std::vector<Value> x, gate, up, down;
  std::vector<bfloat16> gate_bias, up_bias, down_bias;
  std::vector<float> row_weights, ones = std::vector<float>(max_rows, 1.0f);
  gating how;

  explicit biased_experts(gating how_given) : how{how_given} {
    std::mt19937 random{11};
    const auto values = [&](int count, float unit) {
      std::vector<Value> made;
      for (int i = 0; i < count; ++i)
        made.emplace_back(unit * static_cast<float>(static_cast<int>(random() % 5) - 2));
      return made;
    };
    const auto biases = [&](int n, float unit) {
      std::vector<bfloat16> made;
      for (int i = 0; i < experts * n; ++i)
        made.emplace_back(counts[static_cast<std::size_t>(i / n)] == 0
                              ? std::nanf("")
                              : unit * static_cast<float>(static_cast<int>(random() % 33) - 16));
      return made;
    };
    x = values(max_rows * hidden, 1);
    gate = values(experts * intermediate * hidden, 0.25f);
    up = values(experts * intermediate * hidden, 0.25f);
    down = values(experts * hidden * intermediate, 1);
    gate_bias = biases(intermediate, 0.25f);
    up_bias = biases(intermediate, 0.25f);
    down_bias = biases(hidden, 64);
    for (int r = 0; r < max_rows; ++r) row_weights.push_back(0.125f * static_cast<float>(r % 13 + 1));
  }

  expert_weights weights() const {
    expert_weights w{gate.data(), up.data(), down.data(), experts, hidden, intermediate};
    if constexpr (is_fp8) {
      w.format = weight_format::block_fp8;
      w.gate_scales = w.up_scales = w.down_scales = ones.data();
    }
    w.gate_bias = gate_bias.data();
    w.up_bias = up_bias.data();
    w.down_bias = down_bias.data();
    w.gated_by = how;
    return w;
  }
  received_tokens rows() const {
    received_tokens r;
    r.tokens = x.data();
    r.row_offsets = offsets.data();
    r.row_counts = counts.data();
    r.num_local_experts = experts;
    r.max_rows = max_rows;
    r.hidden = hidden;
    r.row_weights = row_weights.data();
    if constexpr (is_fp8) {
      r.format = token_format::blockwise_fp8;
      r.scales_layout = scale_layout::column_major;
      r.scales = ones.data();
    }
    return r;
  }

  static double of(const Value& v) { return static_cast<double>(static_cast<float>(v)); }
  double product(const std::vector<Value>& w, const std::vector<bfloat16>& bias, std::size_t row,
                 std::size_t j) const {
    double sum = static_cast<double>(static_cast<float>(bias[j]));
    for (std::size_t l = 0; l < hidden; ++l) sum += of(x[row * hidden + l]) * of(w[j * hidden + l]);
    return sum;
  }
  /// Values between the products, and by how much they may be off.
  struct between {
    std::vector<double> values, errors;
  };
  /// exp has 2 units of 2^-23, what is done with it a half each, its exponent two roundings, which exp makes as many times it.
  /// Then bf16 has 2^-8 of the value; e4m3 2^-4, and half of the smallest step of 2^-9 times a scale, 1/448 of the largest.
  between inner_of(std::size_t expert, std::size_t row) const {
    between made;
    double largest = 0;
    for (std::size_t i = 0; i < intermediate; ++i) {
      double g = product(gate, gate_bias, row, expert * intermediate + i);
      double u = product(up, up_bias, row, expert * intermediate + i);
      if (how == gating::clamped) g = std::min(g, 7.0), u = std::clamp(u, -7.0, 7.0);
      const double h =
          how == gating::clamped ? g / (1 + std::exp(-1.702 * g)) * (u + 1) : g / (1 + std::exp(-g)) * u;
      made.values.push_back(h);
      made.errors.push_back((6 + 2 * std::abs(g)) * 0x1p-23 * std::abs(h) +
                            (is_fp8 ? 0x1p-4 : 0x1p-8) * 1.01 * std::abs(h));
      largest = std::max(largest, std::abs(h));
    }
    if (is_fp8)
      for (double& e : made.errors) e += 0x1p-10 * largest / 448 * 1.01;
    return made;
  }
  /// fp32 sums: roundings of 2^-23, as tensor cores truncate; also of the bias and the weight.
  static constexpr double of_fp32 = (intermediate + 3) * 0x1p-23;
  /// The first value that is off by more than it may be, by so much of its terms' magnitudes; empty if there is none.
  std::string wrong(const std::vector<bfloat16>& out, double relative = of_fp32) const {
    for (std::size_t row = 0; row < max_rows; ++row) {
      std::size_t expert = experts;
      for (std::size_t e = 0; e < experts; ++e)
        if (static_cast<int>(row) >= offsets[e] && static_cast<int>(row) < offsets[e] + counts[e]) expert = e;
      const between inner = expert < experts ? inner_of(expert, row) : between{};
      for (std::size_t j = 0; j < hidden; ++j) {
        double right = before, error = 0;
        if (expert < experts) {
          const std::size_t at = expert * hidden + j;
          double sum = static_cast<double>(static_cast<float>(down_bias[at])), most = std::abs(sum);
          for (std::size_t i = 0; i < intermediate; ++i) {
            const double d = of(down[at * intermediate + i]);
            sum += inner.values[i] * d;
            error += inner.errors[i] * std::abs(d);
            most += std::abs(inner.values[i] * d);
          }
          const double weight = static_cast<double>(row_weights[row]);
          right = sum * weight;
          error = (error + relative * (most + error)) * weight;
          error += 0x1p-8 * (std::abs(right) + error);
        }
        const double found = static_cast<double>(static_cast<float>(out[row * hidden + j]));
        if (std::abs(found - right) <= error) continue;
        return "row " + std::to_string(row) + ", column " + std::to_string(j) + ": " + std::to_string(found) +
               ", expected " + std::to_string(right) + " within " + std::to_string(error);
      }
    }
    return "";
  }
};

}  // namespace baton::test
