#pragma once
// Products of e4m3 rows on the CPU: values and the scales of each 128 of them apart.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/block_format.hpp"
#include "base/dot.hpp"
#include "base/stored_rows.hpp"
#include "base/whole_arrays.hpp"

namespace baton {

inline constexpr std::size_t fp8_block = facts_of(token_format::blockwise_fp8).block;

/// The scales of a row of `n` values.
constexpr std::size_t fp8_scales(std::size_t n) {
  return (n + fp8_block - 1) / fp8_block;
}

/// Rounds a row as blockwise_fp8 has it: `row` becomes the e4m3 values before their scales. The last block may be shorter.
inline void round_to_fp8(float* row, std::size_t n, float* scales) {
  using format = block_format<token_format::blockwise_fp8>;
  for (std::size_t first = 0; first < n; first += fp8_block) {
    const std::size_t last = std::min(n, first + fp8_block);
    std::uint32_t most = 0;
    for (std::size_t i = first; i < last; i += lane_values) {
      float lane[lane_values] = {};
      std::copy(row + i, row + std::min<std::size_t>(last, i + lane_values), lane);
      most = larger(most, format::largest(lane));
    }
    const auto scale = format::scale_of(most, {});
    scales[first / fp8_block] = scale.stored;
    for (std::size_t i = first; i < last; ++i)
      row[i] = static_cast<float>(float8_e4m3{row[i] * scale.inverse});
  }
}

/// Row `row` as rows.hidden e4m3 values and their scales: as it came if it is blockwise_fp8, else rounded.
inline void fp8_row(const received_tokens& rows, std::size_t row, float* values, float* scales) {
  const auto n = static_cast<std::size_t>(rows.hidden);
  if (rows.format == token_format::blockwise_fp8) {
    stored_values(rows, row, values, scales);
  } else {
    widen_row(rows, row, values);
    round_to_fp8(values, n, scales);
  }
}

namespace fp8_rows_detail {
inline constexpr std::array<float, 256> all_e4m3 = [] {
  std::array<float, 256> values{};
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(float8_e4m3::from_bits(static_cast<std::uint8_t>(i)));
  return values;
}();
}  // namespace fp8_rows_detail

/// A row of values as fp32, before their scales.
BATON_READS_WHOLE_ARRAYS inline void widen(const float8_e4m3* from, std::size_t n, float* to) {
  look_at(from, n);
  look_at(to, n);
  const float* const values = fp8_rows_detail::all_e4m3.data();
  for (std::size_t i = 0; i < n; ++i) to[i] = values[from[i].bits];
}

/// sum over blocks b of (a_scales[b] * b_scales[b]) * dot(a in b, b in b), blocks ascending, each added with one rounding.
inline float scaled_dot(const float* a, const float* a_scales, const float* b, const float* b_scales,
                        std::size_t n) {
  float sum = 0;
  for (std::size_t first = 0; first < n; first += fp8_block) {
    const std::size_t block = first / fp8_block;
    const float products = dot(a + first, b + first, std::min(fp8_block, n - first));
    sum = std::fma(a_scales[block] * b_scales[block], products, sum);
  }
  return sum;
}

}  // namespace baton
