// Experts with weights in FP8 on the CPU: where everything is rounded, against the rules written anew in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "baton/expert_mlp.hpp"
#include "kernels/expert_mlp/cpu.hpp"
#include "tests/support/block_oracle.hpp"

namespace baton::test {
namespace {

/// What an implementation may get wrong, for planted bugs.
struct mistakes {
  bool rows_unrounded = false, inner_unrounded = false, scales_of_next_block = false;
};

/// Numbers of which all but `down` is exact in fp32: rows of small integers, one 448 in each block, so that its scale is 1;
/// weights of small integers, scales that are powers of two; gates over 18, where silu(v) is v.
struct fp8_problem {
  static constexpr int experts = 2, rows = 40, first_rows = 19, max_rows = 43;
  int hidden, intermediate;
  std::vector<float8_e4m3> gate, up, down;
  std::vector<float> gate_scales, up_scales, down_scales;
  std::vector<bfloat16> x;
  std::vector<std::int32_t> offsets = {1, 1 + first_rows, 1 + rows};
  std::vector<std::int32_t> counts = {first_rows, rows - first_rows};

  fp8_problem(int hidden_values, int intermediate_values)
      : hidden{hidden_values}, intermediate{intermediate_values} {
    std::mt19937 random{7};
    const auto integers = [&random](int count, int most) {
      std::uniform_int_distribution<int> any{-most, most};
      std::vector<float> values(static_cast<std::size_t>(count));
      for (float& v : values) v = static_cast<float>(any(random));
      return values;
    };
    const auto matrix = [&](int most, float of_the_large) {
      std::vector<float> w = integers(experts * hidden * intermediate, most);
      for (std::size_t i = 0; i < w.size(); ++i)
        if (i % static_cast<std::size_t>(hidden) % 128 == 0 && of_the_large >= 0) w[i] = of_the_large;
      return std::vector<float8_e4m3>(w.begin(), w.end());
    };
    const auto scales = [&](int n, int k, int least) {
      std::uniform_int_distribution<int> any{least, least + 2};
      std::vector<float> s(static_cast<std::size_t>(experts * weight_scales(n) * weight_scales(k)));
      for (float& v : s) v = std::ldexp(1.0f, any(random));
      return s;
    };
    gate = matrix(1, 1);
    up = matrix(2, 0);
    down = matrix(3, -1);
    gate_scales = scales(intermediate, hidden, 0);
    up_scales = scales(intermediate, hidden, -1);
    down_scales = scales(hidden, intermediate, -9);
    for (const float v : integers(max_rows * hidden, 4)) x.emplace_back(v);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t at = i % static_cast<std::size_t>(hidden);
      if (at % 128 == 0) x[i] = bfloat16{448.0f};
      if (at % 128 == 5) x[i] = bfloat16{i % 3 == 0 ? 17.0f : 19.0f};  // e4m3 has 16, 18 and 20
    }
  }

  expert_weights weights() const {
    return {gate.data(),
            up.data(),
            down.data(),
            experts,
            hidden,
            intermediate,
            weight_format::block_fp8,
            gate_scales.data(),
            up_scales.data(),
            down_scales.data()};
  }
  received_tokens received() const {
    received_tokens r;
    r.tokens = x.data();
    r.row_offsets = offsets.data();
    r.row_counts = counts.data();
    r.num_local_experts = experts;
    r.max_rows = max_rows;
    r.hidden = hidden;
    return r;
  }
  std::vector<bfloat16> run(const received_tokens& from) const {
    std::vector<bfloat16> out(x.size(), bfloat16{std::numeric_limits<float>::quiet_NaN()});
    expert_mlp_cpu::run(weights(), from, out.data());
    return out;
  }

  /// Blocks of 128, the last shorter, by the oracle of the format.
  struct rounded_row {
    std::vector<double> values, scales;
  };
  static rounded_row rounded(const std::vector<float>& row, bool leave) {
    rounded_row r;
    for (std::size_t first = 0; first < row.size(); first += 128) {
      const std::vector<float> block(
          row.begin() + static_cast<std::ptrdiff_t>(first),
          row.begin() + static_cast<std::ptrdiff_t>(std::min(row.size(), first + 128)));
      const expected_block e = expected(token_format::blockwise_fp8, block, 1);
      r.scales.push_back(leave ? 1 : e.scale);
      for (std::size_t i = 0; i < block.size(); ++i)
        r.values.push_back(leave ? static_cast<double>(block[i]) : e.values[i]);
    }
    return r;
  }

  struct sum {
    double value = 0, magnitude = 0;
  };
  /// Row n of expert e of a matrix [.., rows_of, row.size()] times a row.
  static sum product(const rounded_row& row, const std::vector<float8_e4m3>& w,
                     const std::vector<float>& scales, int e, int n, int rows_of, const mistakes& wrong) {
    const std::size_t k = row.values.size(), blocks = row.scales.size();
    const std::size_t first = static_cast<std::size_t>(e * rows_of + n) * k;
    const std::size_t of_row = static_cast<std::size_t>(e * weight_scales(rows_of) + n / 128) * blocks;
    sum s;
    for (std::size_t i = 0; i < k; ++i) {
      const std::size_t block = (i / 128 + (wrong.scales_of_next_block ? 1 : 0)) % blocks;
      const double scale = row.scales[i / 128] * static_cast<double>(scales[of_row + block]);
      const double term = scale * row.values[i] * static_cast<double>(static_cast<float>(w[first + i]));
      s.value += term;
      s.magnitude += std::fabs(term);
    }
    return s;
  }

  std::vector<sum> expected_row(int row, int e, const mistakes& wrong) const {
    const auto begin = x.begin() + row * hidden;
    std::vector<float> given, inner;
    std::transform(begin, begin + hidden, std::back_inserter(given),
                   [](bfloat16 v) { return static_cast<float>(v); });
    const rounded_row in = rounded(given, wrong.rows_unrounded);
    for (int j = 0; j < intermediate; ++j) {
      const double g = product(in, gate, gate_scales, e, j, intermediate, wrong).value;
      EXPECT_GT(g, 18);
      inner.push_back(static_cast<float>(g * product(in, up, up_scales, e, j, intermediate, wrong).value));
    }
    const rounded_row middle = rounded(inner, wrong.inner_unrounded);
    std::vector<sum> out;
    for (int i = 0; i < hidden; ++i) out.push_back(product(middle, down, down_scales, e, i, hidden, wrong));
    return out;
  }

  /// Largest error as a part of what rounding to bf16 (2^-8) and a sum in fp32 explain: (n + 8) 2^-24 of the magnitudes.
  double worst(const std::vector<bfloat16>& out, const mistakes& wrong = {}) const {
    const double sums = (intermediate + 8) * 0x1p-24;
    double largest = 0;
    for (int e = 0; e < experts; ++e)
      for (int r = 0; r < counts[static_cast<std::size_t>(e)]; ++r) {
        const int row = offsets[static_cast<std::size_t>(e)] + r;
        const std::vector<sum> expected = expected_row(row, e, wrong);
        for (int i = 0; i < hidden; ++i) {
          const sum& s = expected[static_cast<std::size_t>(i)];
          const double bound = 0x1p-8 * std::fabs(s.value) + 2 * sums * s.magnitude;
          const double error = std::fabs(
              static_cast<double>(static_cast<float>(out[static_cast<std::size_t>(row * hidden + i)])) -
              s.value);
          largest = std::max(largest, bound > 0 ? error / bound : error > 0 ? 1e9 : 0);
        }
      }
    return largest;
  }
};

class fp8_experts_on_the_cpu : public testing::TestWithParam<std::pair<int, int>> {};

TEST_P(fp8_experts_on_the_cpu, round_where_the_interface_says_and_nowhere_else) {
  const fp8_problem p{GetParam().first, GetParam().second};
  const auto out = p.run(p.received());
  EXPECT_LE(p.worst(out), 1.0);
  for (const int row : {0, 41, 42})
    EXPECT_TRUE(std::isnan(static_cast<float>(out[static_cast<std::size_t>(row * p.hidden)])))
        << "a row of nobody";
  if (p.hidden <= 128) return;
  EXPECT_GT(p.worst(out, {.rows_unrounded = true}), 1.0);
  EXPECT_GT(p.worst(out, {.inner_unrounded = true}), 1.0);
  EXPECT_GT(p.worst(out, {.scales_of_next_block = true}), 1.0);
}

INSTANTIATE_TEST_SUITE_P(whole_and_partial_blocks, fp8_experts_on_the_cpu,
                         testing::Values(std::pair{256, 256}, std::pair{384, 64}, std::pair{264, 200},
                                         std::pair{40, 24}));

TEST(expert_mlp_fp8, rows_that_came_in_fp8_give_the_same_bits) {
  const fp8_problem p{256, 200};
  std::vector<float8_e4m3> values(p.x.size());
  std::vector<float> scales(p.x.size() / 128, 1.0f);
  std::transform(p.x.begin(), p.x.end(), values.begin(),
                 [](bfloat16 v) { return float8_e4m3{static_cast<float>(v)}; });
  received_tokens rows = p.received();
  rows.format = token_format::blockwise_fp8;
  rows.tokens = values.data();
  rows.scales = scales.data();
  rows.scales_layout = scale_layout::row_major;
  const auto found = p.run(rows), expected = p.run(p.received());
  for (int i = p.hidden; i < (1 + fp8_problem::rows) * p.hidden; ++i)
    ASSERT_EQ(found[static_cast<std::size_t>(i)], expected[static_cast<std::size_t>(i)]) << i;
}

}  // namespace
}  // namespace baton::test
