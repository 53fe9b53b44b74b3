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

/// IEEE half precision. Conversion from float rounds to nearest, ties to even; what rounds past 65504 becomes infinite, as
/// `cvt.rn.f16.f32` does.
struct float16 {
  std::uint16_t bits = 0;

  float16() = default;
  constexpr explicit float16(float value) : bits{round(std::bit_cast<std::uint32_t>(value))} {}
  constexpr explicit operator float() const {
    const std::uint32_t magnitude = (bits & 0x7fffu) << 13;
    const float number =
        std::bit_cast<float>(magnitude) * 0x1p112f;  // exponents begin 112 lower; subnormals too
    const std::uint32_t found =
        magnitude < 0x0f800000u ? std::bit_cast<std::uint32_t>(number) : magnitude | 0x7f800000u;
    return std::bit_cast<float>((bits & 0x8000u) << 16 | found);
  }
  static constexpr float16 from_bits(std::uint16_t bits) {
    float16 f;
    f.bits = bits;
    return f;
  }
  friend constexpr bool operator==(float16, float16) = default;  // compares bits

 private:
  static constexpr std::uint16_t round(std::uint32_t f) {
    const std::uint32_t sign = f >> 16 & 0x8000u, magnitude = f & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // >= 65520
    if (magnitude < 0x38800000u) {  // below 2^-14: multiples of 2^-24. Adding 0.5 leaves just those bits
      const float scaled = std::bit_cast<float>(magnitude) + 0.5f;
      return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(scaled) - 0x3f000000u));
    }
    const std::uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
    return static_cast<std::uint16_t>(sign | ((rounded >> 13) - (112u << 10)));
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

/// float4 e2m1 (OCP "FP4"), in the low four bits: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives; no infinities, no NaN.
/// Conversion from float rounds to nearest, ties to even, and saturates to +-6, as `cvt.rn.satfinite.e2m1x2.f32` does; a NaN
/// becomes 6 with its sign.
struct float4_e2m1 {
  std::uint8_t bits = 0;

  float4_e2m1() = default;
  constexpr explicit float4_e2m1(float value) : bits{round(std::bit_cast<std::uint32_t>(value))} {}
  constexpr explicit operator float() const {
    const int exponent = (bits >> 1) & 3, mantissa = bits & 1;
    const float magnitude = exponent == 0 ? 0.5f * static_cast<float>(mantissa)
                                          : static_cast<float>((2 + mantissa) << exponent) * 0.25f;
    return (bits & 8u) != 0 ? -magnitude : magnitude;
  }
  static constexpr float4_e2m1 from_bits(std::uint8_t bits) {
    float4_e2m1 f;
    f.bits = bits;
    return f;
  }
  friend constexpr bool operator==(float4_e2m1, float4_e2m1) = default;  // compares bits

 private:
  static constexpr std::uint8_t round(std::uint32_t f) {
    constexpr std::uint32_t one = 0x3f800000, six = 0x40c00000, two_to_22 = 0x4a800000;
    std::uint32_t magnitude = f & 0x7fffffffu;
    if (magnitude > six) magnitude = six;
    // Below 1: multiples of 0.5. Adding 2^22 leaves just those bits.
    const float halves = std::bit_cast<float>(magnitude) + std::bit_cast<float>(two_to_22);
    const std::uint32_t below_one = std::bit_cast<std::uint32_t>(halves) - two_to_22;
    const std::uint32_t others = ((magnitude + 0x1fffffu + ((magnitude >> 22) & 1u)) >> 22) - (126u << 1);
    return static_cast<std::uint8_t>((f >> 28 & 8u) | (magnitude < one ? below_one : others));
  }
};

/// float8 e8m0 (OCP's block scale): 2^(bits - 127), no sign, no zero, 255 is NaN.
struct float8_e8m0 {
  std::uint8_t bits = 0;

  constexpr explicit operator float() const {
    if (bits == 0xff) return std::bit_cast<float>(0x7fc00000u);
    return std::bit_cast<float>(bits == 0 ? 0x00400000u : static_cast<std::uint32_t>(bits) << 23);
  }
  static constexpr float8_e8m0 from_bits(std::uint8_t bits) { return {bits}; }
  friend constexpr bool operator==(float8_e8m0, float8_e8m0) = default;  // compares bits
};

}  // namespace baton
