#pragma once
// What formats whose values share scales make of a block, by the rules of baton/token_format.hpp in double arithmetic.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "baton/numeric.hpp"
#include "baton/token_format.hpp"

namespace baton::test {

/// The magnitudes that a format of `mantissa` bits has up to `largest`, from its definition; e4m3's and e2m1's index is the code.
inline std::vector<double> magnitudes(int mantissa, int smallest_exponent, double largest) {
  std::vector<double> all;
  const int steps = 1 << mantissa;
  for (int i = 0; i < steps; ++i) all.push_back(std::ldexp(i, smallest_exponent - mantissa));
  for (int e = smallest_exponent; all.back() < largest; ++e)
    for (int i = 0; i < steps && all.back() < largest; ++i)
      all.push_back(std::ldexp(steps + i, e - mantissa));
  return all;
}
inline const std::vector<double> e4m3_magnitudes = magnitudes(3, -6, 448);
inline const std::vector<double> e2m1_magnitudes = magnitudes(1, 0, 6);

/// The code of the nearest magnitude; between two, the even code; saturated.
inline int nearest(const std::vector<double>& magnitudes, double v) {
  if (v >= magnitudes.back()) return static_cast<int>(magnitudes.size()) - 1;
  int best = 0;
  for (int code = 1; code < static_cast<int>(magnitudes.size()); ++code) {
    const double d = std::fabs(magnitudes[static_cast<std::size_t>(code)] - v),
                 least = std::fabs(magnitudes[static_cast<std::size_t>(best)] - v);
    if (d < least || (d == least && code % 2 == 0)) best = code;
  }
  return best;
}

/// A block as the rules have it, in double but for the roundings to fp32 that they name.
struct expected_block {
  double scale = 0;
  std::vector<double> values;  // as they are stored
};
inline expected_block rounded_to_bf16(const std::vector<float>& x) {
  expected_block b;
  for (const float v : x) b.values.push_back(static_cast<double>(static_cast<float>(bfloat16{v})));
  return b;
}
/// blockwise_fp8 leaves a NaN out of its scale, and an infinity makes the scale infinite, so that all values times it are NaN.
inline expected_block spoiled_fp8(const std::vector<float>& x);

inline expected_block expected(token_format format, const std::vector<float>& x, float tensor) {
  const std::vector<double>& magnitudes =
      facts_of(format).value_bits == 8 ? e4m3_magnitudes : e2m1_magnitudes;
  float m = 0;
  bool spoiled = false;
  for (const float v : x) {
    spoiled = spoiled || !std::isfinite(v);
    m = std::max(m, std::fabs(v));
  }
  if (format == token_format::bf16) return rounded_to_bf16(x);
  if (format == token_format::blockwise_fp8 && spoiled) return spoiled_fp8(x);
  if (spoiled) return {std::nan(""), std::vector<double>(x.size(), 0.0)};
  double scale, by;
  if (format == token_format::blockwise_fp8) {
    scale = std::max(m, 1e-4f) / 448.0f;
    by = 1.0f / static_cast<float>(scale);
  } else if (format == token_format::nvfp4) {
    const float factor = 1.0f / (6.0f * tensor);
    const int code = nearest(e4m3_magnitudes, static_cast<double>(m * factor));
    scale = e4m3_magnitudes[static_cast<std::size_t>(code)];
    by = code == 0 ? 0 : 1.0f / (static_cast<float>(scale) * tensor);
  } else {
    const int e = m == 0 ? -127 : std::max(std::ilogb(m) - (format == token_format::mxfp8 ? 8 : 2), -127);
    scale = std::ldexp(1.0, e);
    by = std::ldexp(1.0, -e);
  }
  expected_block b{scale, {}};
  for (const float v : x) {
    const auto scaled = static_cast<double>(v * static_cast<float>(by));
    b.values.push_back(
        std::copysign(magnitudes[static_cast<std::size_t>(nearest(magnitudes, std::fabs(scaled)))], v));
  }
  return b;
}

inline expected_block spoiled_fp8(const std::vector<float>& x) {
  std::vector<float> numbers = x;
  bool is_infinite = false;
  for (float& v : numbers) {
    is_infinite = is_infinite || std::isinf(v);
    if (std::isnan(v)) v = 0;
  }
  expected_block b;
  if (!is_infinite)
    b = expected(token_format::blockwise_fp8, numbers, 1);
  else
    b = {std::numeric_limits<double>::infinity(), std::vector<double>(x.size())};
  for (std::size_t i = 0; i < x.size(); ++i)
    if (!std::isfinite(x[i])) b.values[i] = std::nan("");
  return b;
}

}  // namespace baton::test
