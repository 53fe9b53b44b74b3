#pragma once
// Products of rows on the CPU.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/whole_arrays.hpp"
#include "baton/numeric.hpp"

namespace baton {

/// Sum of a[i] * b[i] in fp32, in sixteen partial sums (i modulo 16) that are added pairwise. The order depends on
/// n alone, so equal rows give equal bits wherever they stand; the independent sums let the compiler use vectors.
template <class A, class B>
BATON_READS_WHOLE_ARRAYS float dot(const A* a, const B* b, std::size_t n) {
  constexpr std::size_t lanes = 16;
  look_at(a, n);
  look_at(b, n);
  float sums[lanes] = {};
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (std::size_t l = 0; l < lanes; ++l)
      sums[l] += static_cast<float>(a[i + l]) * static_cast<float>(b[i + l]);
  }
  for (std::size_t l = 0; i + l < n; ++l)
    sums[l] += static_cast<float>(a[i + l]) * static_cast<float>(b[i + l]);
  for (std::size_t width = lanes / 2; width > 0; width /= 2) {
    for (std::size_t l = 0; l < width; ++l) sums[l] += sums[l + width];
  }
  return sums[0];
}

/// to[i] += by * from[i]
BATON_READS_WHOLE_ARRAYS inline void add_scaled(float* __restrict to, const float* __restrict from, float by,
                                                std::size_t n) {
  look_at(to, n);
  look_at(from, n);
  for (std::size_t i = 0; i < n; ++i) to[i] += by * from[i];
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
