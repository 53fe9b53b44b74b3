#pragma once
// Packed conversions of payload words: the GPU's instructions where there are some, the same rounding elsewhere.
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/macros.hpp"
#include "baton/numeric.hpp"
#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#endif

namespace baton {

/// The two bf16 of a 32-bit word, low half first.
BATON_FN float low_bf16(std::uint32_t word) {
  return std::bit_cast<float>(word << 16);
}
BATON_FN float high_bf16(std::uint32_t word) {
  return std::bit_cast<float>(word & 0xffff0000u);
}

/// Eight bf16, two a word.
BATON_FN void widen(const std::uint32_t (&word)[4], float* eight) {
  BATON_UNROLL
  for (int i = 0; i < 4; ++i) {
    eight[2 * i] = low_bf16(word[i]);
    eight[2 * i + 1] = high_bf16(word[i]);
  }
}

/// Two floats rounded to bf16 in a word, `low` in the low half. What is no number becomes some NaN.
BATON_FN std::uint32_t pack_bf16(float low, float high) {
#if defined(__CUDA_ARCH__)
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  std::uint32_t word;
  std::memcpy(&word, &pair, sizeof(word));
  return word;
#else
  return static_cast<std::uint32_t>(bfloat16{low}.bits) | static_cast<std::uint32_t>(bfloat16{high}.bits)
                                                              << 16;
#endif
}

/// Two floats rounded to fp16 in a word, `low` in the low half. What is no number becomes some NaN.
BATON_FN std::uint32_t pack_fp16(float low, float high) {
#if defined(__CUDA_ARCH__)
  const __half2 pair = __floats2half2_rn(low, high);
  std::uint32_t word;
  std::memcpy(&word, &pair, sizeof(word));
  return word;
#else
  return static_cast<std::uint32_t>(float16{low}.bits) | static_cast<std::uint32_t>(float16{high}.bits) << 16;
#endif
}

struct two_floats {
  float low, high;
};
/// The two fp16 of a word.
BATON_FN two_floats widen_fp16(std::uint32_t word) {
#if defined(__CUDA_ARCH__)
  __half2 pair;
  std::memcpy(&pair, &word, sizeof(word));
  const float2 values = __half22float2(pair);
  return {values.x, values.y};
#else
  const auto half = [](std::uint32_t bits) {
    return static_cast<float>(float16::from_bits(static_cast<std::uint16_t>(bits)));
  };
  return {half(word & 0xffffu), half(word >> 16)};
#endif
}

/// The same of T, which is bfloat16 or float16.
template <class T>
BATON_FN std::uint32_t pack_two(float low, float high) {
  if constexpr (std::is_same_v<T, float16>)
    return pack_fp16(low, high);
  else
    return pack_bf16(low, high);
}
template <class T>
BATON_FN two_floats widen_two(std::uint32_t word) {
  if constexpr (std::is_same_v<T, float16>)
    return widen_fp16(word);
  else
    return {low_bf16(word), high_bf16(word)};
}

/// The larger of the magnitudes of two bf16, in both halves; what is no number loses.
BATON_FN std::uint32_t larger_magnitudes(std::uint32_t a, std::uint32_t b) {
  a &= 0x7fff7fffu;
  b &= 0x7fff7fffu;
#if defined(__CUDA_ARCH__)
  __nv_bfloat162 left, right;
  std::memcpy(&left, &a, sizeof(a));
  std::memcpy(&right, &b, sizeof(b));
  left = __hmax2(left, right);
  std::memcpy(&a, &left, sizeof(a));
  return a;
#else
  const auto half = [](std::uint32_t x, std::uint32_t y) {
    constexpr std::uint32_t infinity = 0x7f80;
    return y > infinity || (x <= infinity && x > y) ? x : y;
  };
  return half(a & 0xffffu, b & 0xffffu) | half(a >> 16, b >> 16) << 16;
#endif
}

/// x / 448 in fp32, where x is a bf16 of at least 1e-4, or 1e-4f itself: a test tries them all.
BATON_FN float divided_by_448(float x) {
#if defined(__CUDA_ARCH__)
  constexpr float inverse = 1.0f / 448.0f;
  const float guess = x * inverse;
  return fmaf(fmaf(-448.0f, guess, x), inverse, guess);
#else
  return x / 448.0f;
#endif
}

/// Four floats rounded to e4m3 with saturation, `a` in the lowest byte.
BATON_FN std::uint32_t pack_e4m3(float a, float b, float c, float d) {
#if defined(__CUDA_ARCH__)
  const auto low = __nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE, __NV_E4M3);
  const auto high = __nv_cvt_float2_to_fp8x2(make_float2(c, d), __NV_SATFINITE, __NV_E4M3);
  return static_cast<std::uint32_t>(low) | static_cast<std::uint32_t>(high) << 16;
#else
  const auto byte = [](float v) { return static_cast<std::uint32_t>(float8_e4m3{v}.bits); };
  return byte(a) | byte(b) << 8 | byte(c) << 16 | byte(d) << 24;
#endif
}

/// Two of them.
BATON_FN std::uint16_t pack_e4m3(float low, float high) {
#if defined(__CUDA_ARCH__)
  return __nv_cvt_float2_to_fp8x2(make_float2(low, high), __NV_SATFINITE, __NV_E4M3);
#else
  return static_cast<std::uint16_t>(float8_e4m3{low}.bits | float8_e4m3{high}.bits << 8);
#endif
}

/// Four e4m3, the first in the lowest byte.
BATON_FN void widen_e4m3(std::uint32_t word, float* four) {
#if defined(__CUDA_ARCH__)
  BATON_UNROLL
  for (int i = 0; i < 2; ++i) {
    const auto two = static_cast<__nv_fp8x2_storage_t>(word >> (16 * i));
    const float2 values = __half22float2(__half2{__nv_cvt_fp8x2_to_halfraw2(two, __NV_E4M3)});
    four[2 * i] = values.x;
    four[2 * i + 1] = values.y;
  }
#else
  for (int i = 0; i < 4; ++i)
    four[i] = static_cast<float>(float8_e4m3::from_bits(static_cast<std::uint8_t>(word >> (8 * i))));
#endif
}

/// Eight floats rounded to e2m1 with saturation, the first in the lowest four bits. Integer arithmetic on every device: sm_90
/// has no instruction for it, and the toolkit's software path goes through double.
BATON_FN std::uint32_t pack_e2m1(const float (&v)[8]) {
  std::uint32_t word = 0;
  BATON_UNROLL
  for (int i = 0; i < 8; ++i) word |= static_cast<std::uint32_t>(float4_e2m1{v[i]}.bits) << (4 * i);
  return word;
}

}  // namespace baton
