#pragma once
// What formats whose values share scales make of a block, by the rules of baton/token_format.hpp in double arithmetic.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
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
  const auto above = std::lower_bound(magnitudes.begin(), magnitudes.end(), v);
  if (above == magnitudes.end()) return static_cast<int>(magnitudes.size()) - 1;
  const int code = static_cast<int>(above - magnitudes.begin());
  if (code == 0) return 0;
  const double down = v - above[-1], up = *above - v;
  return down < up || (down == up && code % 2 == 1) ? code - 1 : code;
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

/// Value `index` of stored values of so many bits, by the oracle's tables.
inline double read_value(int value_bits, const std::vector<std::uint8_t>& values, std::size_t index) {
  if (value_bits == 16) {
    std::uint16_t bits;
    std::memcpy(&bits, values.data() + 2 * index, 2);
    return static_cast<double>(static_cast<float>(bfloat16::from_bits(bits)));
  }
  if (value_bits == 8) {
    const std::uint8_t code = values[index];
    const double v = (code & 0x7f) == 0x7f ? std::nan("") : e4m3_magnitudes[code & 0x7f];
    return code >= 0x80 ? -v : v;
  }
  const int code = values[index / 2] >> (index % 2 * 4) & 15;
  const double v = e2m1_magnitudes[static_cast<std::size_t>(code & 7)];
  return code >= 8 ? -v : v;
}
inline double read_value(token_format format, const std::vector<std::uint8_t>& values, std::size_t index) {
  return read_value(facts_of(format).value_bits, values, index);
}
inline double read_scale(token_format format, const std::vector<std::uint8_t>& scales, std::size_t index) {
  if (format == token_format::blockwise_fp8) {
    float scale;
    std::memcpy(&scale, scales.data() + 4 * index, 4);
    return static_cast<double>(scale);
  }
  if (format == token_format::nvfp4) return read_value(token_format::mxfp8, scales, index);
  return scales[index] == 0xff ? std::nan("") : std::ldexp(1.0, scales[index] - 127);
}

/// The same as bytes: a block's values, and its scale.
inline std::vector<std::uint8_t> value_bytes(token_format format, const std::vector<double>& values) {
  const bool is_e4m3 = facts_of(format).value_bits == 8;
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const int code = nearest(is_e4m3 ? e4m3_magnitudes : e2m1_magnitudes, std::fabs(values[i]));
    const int with_sign = code | (std::signbit(values[i]) ? (is_e4m3 ? 0x80 : 8) : 0);
    if (is_e4m3 || i % 2 == 0)
      bytes.push_back(static_cast<std::uint8_t>(with_sign));
    else
      bytes.back() = static_cast<std::uint8_t>(bytes.back() | with_sign << 4);
  }
  return bytes;
}
inline std::vector<std::uint8_t> scale_bytes(token_format format, double scale) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(facts_of(format).scale_bytes));
  if (format == token_format::blockwise_fp8) {
    const auto narrow = static_cast<float>(scale);
    std::memcpy(bytes.data(), &narrow, sizeof narrow);
  } else if (format == token_format::nvfp4) {
    bytes[0] = static_cast<std::uint8_t>(nearest(e4m3_magnitudes, scale));
  } else {
    bytes[0] = static_cast<std::uint8_t>(std::ilogb(scale) + 127);
  }
  return bytes;
}

}  // namespace baton::test
