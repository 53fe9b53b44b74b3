#pragma once
// Products of e4m3 with scales, dense and of groups of rows, and what must come out, for both devices.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/math.hpp"
#include "baton/numeric.hpp"
#include "baton/token_format.hpp"
#include "kernels/gemm/params.hpp"
#include "tests/support/grouped_gemm_case.hpp"

namespace baton::test {

/// Rows of group g lie from firsts[g] on, `gap` rows of nobody behind each group.
struct scaled_gemm_case {
  static constexpr int block = 128;
  int n, k, max_rows = 0;
  scale_layout layout = scale_layout::row_major;  // of a_scales
  std::vector<std::int32_t> counts{}, firsts{};
  std::vector<int> group{};           // [max_rows]: the row's; -1: none's
  std::vector<float8_e4m3> a{}, b{};  // [max_rows, k], [groups, n, k]
  std::vector<float> a_scales{}, b_scales{};

  int blocks() const { return ceil_div(k, block); }
  std::size_t a_scale_row() const {
    return static_cast<std::size_t>(layout == scale_layout::row_major ? blocks() : 1);
  }
  std::size_t a_scale_block() const {
    return static_cast<std::size_t>(layout == scale_layout::row_major ? 1 : max_rows);
  }

  /// Of each code, what it is worth.
  static std::span<const double, 256> values_of_codes() {
    static const std::array<double, 256> values = [] {
      std::array<double, 256> of{};
      for (std::size_t bits = 0; bits < of.size(); ++bits)
        of[bits] =
            static_cast<double>(static_cast<float>(float8_e4m3::from_bits(static_cast<std::uint8_t>(bits))));
      return of;
    }();
    return values;
  }

  /// What must come out at a row and a column, and the sum of its terms' magnitudes.
  struct value {
    double sum = 0, weight = 0;
  };
  value at(int row, int column) const {
    const auto r = static_cast<std::size_t>(row), j = static_cast<std::size_t>(column);
    const auto g = static_cast<std::size_t>(group[r]), depth = static_cast<std::size_t>(k);
    const auto steps = static_cast<std::size_t>(blocks()), rows_of_b = static_cast<std::size_t>(n);
    const auto blocks_of_b = static_cast<std::size_t>(ceil_div(n, block));
    const double* const values = values_of_codes().data();
    const float8_e4m3* const in_a = a.data() + r * depth;
    const float8_e4m3* const in_b = b.data() + (g * rows_of_b + j) * depth;
    value out;
    for (std::size_t step = 0; step < steps; ++step) {
      value of_block;
      const std::size_t end = std::min(depth, (step + 1) * block);
      for (std::size_t l = step * block; l < end; ++l) {
        const double term = values[in_a[l].bits] * values[in_b[l].bits];
        of_block.sum += term;
        of_block.weight += std::abs(term);
      }
      const double scale = static_cast<double>(a_scales[r * a_scale_row() + step * a_scale_block()]) *
                           static_cast<double>(b_scales[(g * blocks_of_b + j / block) * steps + step]);
      out.sum += of_block.sum * scale;
      out.weight += of_block.weight * scale;
    }
    return out;
  }
};

/// Of a kernel, without its groups.
inline gemm_kernels::operands<bfloat16, float8_e4m3> operands_of(const scaled_gemm_case& g, bfloat16* c) {
  return {.a = g.a.data(),
          .b = g.b.data(),
          .c = c,
          .m = g.max_rows,
          .n = g.n,
          .k = g.k,
          .a_scales = g.a_scales.data(),
          .b_scales = g.b_scales.data(),
          .a_scale_row = static_cast<int>(g.a_scale_row()),
          .a_scale_block = static_cast<std::int64_t>(g.a_scale_block())};
}

struct scaled_draws {
  std::function<float()> value, scale;
};
/// Integers from -2 to 2 and scales 1/2, 1 and 2: exact whatever the order of the sums is, for k to 2^11.
inline scaled_draws exact_draws(std::uint32_t seed) {
  auto random = std::make_shared<std::mt19937>(seed);
  return {[random] { return static_cast<float>(static_cast<int>((*random)() % 5) - 2); },
          [random] { return std::ldexp(1.0f, static_cast<int>((*random)() % 3) - 1); }};
}
/// As quantisation gives them: values to 448, scales that differ by a factor of 2.
inline scaled_draws random_draws(std::uint32_t seed) {
  auto random = std::make_shared<std::mt19937>(seed);
  auto normal = std::make_shared<std::normal_distribution<float>>(0.0f, 100.0f);
  return {[random, normal] { return (*normal)(*random); },
          [random] { return 0.005f * (1.0f + static_cast<float>((*random)() >> 8) * 0x1p-24f); }};
}

/// Rows of nobody are NaN, and so are their scales.
inline scaled_gemm_case scaled_groups(std::span<const int> counts, int n, int k, const scaled_draws& draw,
                                      scale_layout layout = scale_layout::row_major, int gap = 0) {
  scaled_gemm_case made{.n = n, .k = k, .layout = layout};
  lay_groups_out(made, counts, gap);
  const auto depth = static_cast<std::size_t>(k), steps = static_cast<std::size_t>(made.blocks());
  made.a_scales.resize(made.group.size() * steps);
  for (std::size_t row = 0; row < made.group.size(); ++row) {
    const bool is_of_group = made.group[row] >= 0;
    for (std::size_t l = 0; l < depth; ++l)
      made.a.push_back(is_of_group ? float8_e4m3{draw.value()} : float8_e4m3::from_bits(0x7f));
    for (std::size_t s = 0; s < steps; ++s)
      made.a_scales[row * made.a_scale_row() + s * made.a_scale_block()] =
          is_of_group ? draw.scale() : std::nanf("");
  }
  for (std::size_t i = 0; i < counts.size() * static_cast<std::size_t>(n) * depth; ++i)
    made.b.push_back(float8_e4m3{draw.value()});
  for (std::size_t i = 0; i < counts.size() * static_cast<std::size_t>(ceil_div(n, 128)) * steps; ++i)
    made.b_scales.push_back(draw.scale());
  return made;
}

/// The first wrong value of c, which held `before` where no group has a row; empty if there is none. `relative` times the sum of
/// a value's terms' magnitudes it may be off by, and by its own rounding to bf16; 0: it is the exact value, rounded once.
inline std::string wrong_value(const scaled_gemm_case& g, const std::vector<bfloat16>& c, float before,
                               double relative = 0) {
  for (int row = 0; row < g.max_rows; ++row) {
    for (int column = 0; column < g.n; ++column) {
      const auto found = static_cast<float>(c[static_cast<std::size_t>(row) * static_cast<std::size_t>(g.n) +
                                              static_cast<std::size_t>(column)]);
      if (g.group[static_cast<std::size_t>(row)] < 0) {
        if (found == before) continue;
        return "c[" + std::to_string(row) + ", " + std::to_string(column) + "] of nobody was written";
      }
      const scaled_gemm_case::value right = g.at(row, column);
      const auto rounded = static_cast<float>(bfloat16{static_cast<float>(right.sum)});
      const double error =
          std::abs(static_cast<double>(found) - (relative == 0 ? static_cast<double>(rounded) : right.sum));
      if (error <= relative * right.weight + (relative == 0 ? 0 : std::abs(right.sum) * 0x1p-8)) continue;
      return "c[" + std::to_string(row) + ", " + std::to_string(column) + "] = " + std::to_string(found) +
             ", expected " + std::to_string(right.sum);
    }
  }
  return "";
}

}  // namespace baton::test
