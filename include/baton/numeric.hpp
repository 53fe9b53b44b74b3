#pragma once
#include <bit>
#include <cstdint>

namespace baton {

/// bfloat16 as stored: the upper half of a float. Conversion from float rounds to nearest, ties to even.
struct bfloat16 {
  std::uint16_t bits = 0;

  bfloat16() = default;
  constexpr explicit bfloat16(float value) : bits{round(std::bit_cast<std::uint32_t>(value))} {}
  constexpr explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
  static constexpr bfloat16 from_bits(std::uint16_t bits) {
    bfloat16 b;
    b.bits = bits;
    return b;
  }
  friend constexpr bool operator==(bfloat16, bfloat16) = default;  // compares bits

 private:
  static constexpr std::uint16_t round(std::uint32_t f) {
    if ((f & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((f >> 16) | 0x40u);  // quiet NaN
    return static_cast<std::uint16_t>((f + 0x7fffu + ((f >> 16) & 1u)) >> 16);
  }
};

/// float8 e4m3 (OCP "e4m3fn"): no infinities, largest value 448, NaN is 0x7f. Conversion from float rounds to
/// nearest, ties to even, and saturates to +-448, as `cvt.rn.satfinite.e4m3x2.f32` does.
struct float8_e4m3 {
  std::uint8_t bits = 0;

  float8_e4m3() = default;
  constexpr explicit float8_e4m3(float value) : bits{round(std::bit_cast<std::uint32_t>(value))} {}
  constexpr explicit operator float() const {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80u) << 24;
    const int exponent = (bits >> 3) & 0xf;
    const std::uint32_t mantissa = bits & 7u;
    if ((bits & 0x7fu) == 0x7fu) return std::bit_cast<float>(sign | 0x7fc00000u);
    if (exponent == 0) {
      const float magnitude = static_cast<float>(mantissa) * 0x1p-9f;
      return sign ? -magnitude : magnitude;
    }
    return std::bit_cast<float>(sign | static_cast<std::uint32_t>(exponent + 120) << 23 | mantissa << 20);
  }
  static constexpr float8_e4m3 from_bits(std::uint8_t bits) {
    float8_e4m3 f;
    f.bits = bits;
    return f;
  }
  friend constexpr bool operator==(float8_e4m3, float8_e4m3) = default;  // compares bits

 private:
  static constexpr std::uint8_t round(std::uint32_t f) {
    const auto sign = static_cast<std::uint8_t>((f >> 24) & 0x80u);
    const std::uint32_t magnitude = f & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return static_cast<std::uint8_t>(sign | 0x7fu);
    if (magnitude >= 0x43e80000u) return static_cast<std::uint8_t>(sign | 0x7eu);  // >= 464: rounds past 448
    if (magnitude < 0x3c800000u) {  // below 2^-6: multiples of 2^-9. Adding 2^14 leaves just those bits
      const float scaled = std::bit_cast<float>(magnitude) + 16384.0f;
      return static_cast<std::uint8_t>(sign | (std::bit_cast<std::uint32_t>(scaled) - 0x46800000u));
    }
    const std::uint32_t rounded = magnitude + 0x7ffffu + ((magnitude >> 20) & 1u);
    return static_cast<std::uint8_t>(sign | ((rounded >> 20) - (120u << 3)));
  }
};

}  // namespace baton
