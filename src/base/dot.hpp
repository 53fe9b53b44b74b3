#pragma once
// Products of rows on the CPU.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/whole_arrays.hpp"
#include "baton/numeric.hpp"

namespace baton {

/// Four floats of a row, which add and multiply as one, however little the compiler optimises.
using four_floats = float __attribute__((vector_size(16)));

__attribute__((always_inline)) inline four_floats four_at(const float* values) {
  four_floats all;
  std::memcpy(&all, values, sizeof all);
  return all;
}

/// Sum of a[i] * b[i] in fp32, in sixteen partial sums (i modulo 16) that are added pairwise. The order depends on
/// n alone, so equal rows give equal bits wherever they stand.
BATON_READS_WHOLE_ARRAYS inline float dot(const float* a, const float* b, std::size_t n) {
  look_at(a, n);
  look_at(b, n);
  four_floats first{}, second{}, third{}, fourth{};
  std::size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    first += four_at(a + i) * four_at(b + i);
    second += four_at(a + i + 4) * four_at(b + i + 4);
    third += four_at(a + i + 8) * four_at(b + i + 8);
    fourth += four_at(a + i + 12) * four_at(b + i + 12);
  }
  four_floats sums[4] = {first, second, third, fourth};
  for (std::size_t l = 0; i + l < n; ++l) sums[l / 4][l % 4] += a[i + l] * b[i + l];
  const four_floats all = (sums[0] + sums[2]) + (sums[1] + sums[3]);
  return (all[0] + all[2]) + (all[1] + all[3]);
}

/// to[i] += by * from[i]
BATON_READS_WHOLE_ARRAYS inline void add_scaled(float* __restrict to, const float* __restrict from, float by,
                                                std::size_t n) {
  look_at(to, n);
  look_at(from, n);
  constexpr std::size_t width = 4;
  std::size_t i = 0;
  for (; i + width <= n; i += width) {
    const four_floats sums = four_at(to + i) + four_at(from + i) * by;
    std::memcpy(to + i, &sums, sizeof sums);
  }
  for (; i < n; ++i) to[i] += by * from[i];
}

/// to[i] += by[k] * rows[k][i] of each k in turn: the same bits as add_scaled for each, with each array looked at once.
template <std::size_t columns, std::size_t n>
BATON_READS_WHOLE_ARRAYS void add_scaled_rows(float (&to)[columns], const float (&rows)[n][columns],
                                              const float (&by)[n]) {
  constexpr std::size_t width = 8;
  static_assert(columns % width == 0);
  using eight_floats = float __attribute__((__vector_size__(4 * width), __aligned__(4), __may_alias__));
  look_at(to, columns);
  look_at(rows[0], n * columns);
  look_at(by, n);
  for (std::size_t i = 0; i < columns; i += width) {
    auto* const eight = reinterpret_cast<eight_floats*>(to + i);
    eight_floats sums = *eight;
    for (std::size_t k = 0; k < n; ++k) sums += *reinterpret_cast<const eight_floats*>(rows[k] + i) * by[k];
    *eight = sums;
  }
}

/// A row as fp32. bfloat16's own conversion would be a call for every value where arrays are looked at as a whole.
BATON_READS_WHOLE_ARRAYS inline void widen(const bfloat16* from, std::size_t n, float* to) {
  look_at(from, n);
  look_at(to, n);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t upper = std::uint32_t{from[i].bits} << 16;
    std::memcpy(to + i, &upper, sizeof upper);
  }
}

/// Eight at once, however little the compiler optimises: a bfloat16 is the upper half of a float.
BATON_QUICK inline void widen_eight(const bfloat16 (&from)[8], float (&to)[8]) {
  using eight_halves = std::uint16_t __attribute__((vector_size(16)));
  eight_halves upper;
  std::memcpy(&upper, from, sizeof upper);
  const auto low = __builtin_shufflevector(eight_halves{}, upper, 0, 8, 1, 9, 2, 10, 3, 11),
             high = __builtin_shufflevector(eight_halves{}, upper, 4, 12, 5, 13, 6, 14, 7, 15);
  std::memcpy(to, &low, sizeof low);
  std::memcpy(to + 4, &high, sizeof high);
}

BATON_READS_WHOLE_ARRAYS inline void widen(const float16* from, std::size_t n, float* to) {
  look_at(from, n);
  look_at(to, n);
  constexpr std::uint32_t infinity = 0x7c00u << 13;
  for (std::size_t i = 0; i < n; ++i) {  // see float16
    const std::uint32_t sign = (from[i].bits & 0x8000u) << 16, magnitude = (from[i].bits & 0x7fffu) << 13;
    float number;
    std::memcpy(&number, &magnitude, sizeof number);
    number *= 0x1p112f;
    std::uint32_t found;
    std::memcpy(&found, &number, sizeof found);
    found = sign | (magnitude < infinity ? found : magnitude | 0x7f800000u);
    std::memcpy(to + i, &found, sizeof found);
  }
}

/// y[r, o] = dot(weight[o, :], x[r, :]) for `rows` rows. Rows are taken sixteen at a time, so that a weight row stays
/// in the nearest cache while it is used.
inline void multiply_rows(const float* weight, std::size_t outputs, std::size_t inputs, const float* x,
                          std::size_t rows, float* y) {
  constexpr std::size_t block = 16;
  for (std::size_t first = 0; first < rows; first += block) {
    const std::size_t last = std::min(rows, first + block);
    for (std::size_t o = 0; o < outputs; ++o) {
      for (std::size_t r = first; r < last; ++r) {
        y[r * outputs + o] = dot(weight + o * inputs, x + r * inputs, inputs);
      }
    }
  }
}

}  // namespace baton
