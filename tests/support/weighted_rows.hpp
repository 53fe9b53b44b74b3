#pragma once
// What the exchange's tests' experts make of a token, added up along a row: for every token of every case and choice.
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/whole_arrays.hpp"
#include "baton/numeric.hpp"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

namespace baton::test {

/// A row of bf16, stored anywhere, as fp32.
BATON_READS_WHOLE_ARRAYS inline void widen_stored(const std::uint8_t* from, float* to, std::size_t n) {
  look_at(from, 2 * n);
  look_at(to, n);
  for (std::size_t i = 0; i < n; ++i) {
    std::uint16_t upper;
    std::memcpy(&upper, from + 2 * i, sizeof upper);
    const std::uint32_t bits = std::uint32_t{upper} << 16;
    std::memcpy(to + i, &bits, sizeof bits);
  }
}

/// A row of e4m3 of one scale, stored anywhere, as fp32.
BATON_READS_WHOLE_ARRAYS inline void widen_scaled(const std::uint8_t* from, float scale, float* to,
                                                  std::size_t n) {
  static const std::vector<float> all = [] {
    std::vector<float> values;
    for (int bits = 0; bits < 256; ++bits)
      values.push_back(static_cast<float>(float8_e4m3::from_bits(static_cast<std::uint8_t>(bits))));
    return values;
  }();
  look_at(from, n);
  look_at(to, n);
  const float* const values = all.data();
  for (std::size_t i = 0; i < n; ++i) to[i] = values[from[i]] * scale;
}

/// bf16(values[i] * factor), stored anywhere.
BATON_READS_WHOLE_ARRAYS inline void round_scaled(float factor, const float* values, std::uint8_t* to,
                                                  std::size_t n) {
  look_at(values, n);
  look_at(to, 2 * n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(values[i] * factor);
    const bool is_number = (bits & 0x7fffffffu) <= 0x7f800000u;
    const auto rounded = static_cast<std::uint16_t>(
        (is_number ? bits + 0x7fffu + ((bits >> 16) & 1u) : bits | 0x400000u) >> 16);  // as bfloat16 rounds
    std::memcpy(to + 2 * i, &rounded, sizeof rounded);
  }
}

/// sums[i] = fma(weight, bf16(values[i] * factor), sums[i]) from `first` on.
inline void add_weighted_values_from(std::size_t first, float weight, float factor, const float* values,
                                     float* sums, std::size_t n) {
  for (std::size_t i = first; i < n; ++i)
    sums[i] = std::fma(weight, static_cast<float>(bfloat16{values[i] * factor}), sums[i]);
}

#if defined(__x86_64__) && defined(__GNUC__)
/// The same, eight values at a time, where a build for every x86-64 calls libm for each. Returns how many: those before a NaN.
__attribute__((target("avx2,fma"))) BATON_READS_WHOLE_ARRAYS inline std::size_t add_eights(
    float weight, float factor, const float* values, float* sums, std::size_t n) {
  look_at(values, n);
  look_at(sums, n);
  const __m256i one = _mm256_set1_epi32(1), half = _mm256_set1_epi32(0x7fff),
                upper = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 made = _mm256_mul_ps(_mm256_loadu_ps(values + i), _mm256_set1_ps(factor));
    if (_mm256_movemask_ps(_mm256_cmp_ps(made, made, _CMP_UNORD_Q)) != 0) break;
    const __m256i bits = _mm256_castps_si256(made);
    const __m256i even = _mm256_and_si256(_mm256_srli_epi32(bits, 16), one);  // ties go to even
    const __m256i rounded = _mm256_and_si256(_mm256_add_epi32(_mm256_add_epi32(bits, half), even), upper);
    _mm256_storeu_ps(sums + i, _mm256_fmadd_ps(_mm256_set1_ps(weight), _mm256_castsi256_ps(rounded),
                                               _mm256_loadu_ps(sums + i)));
  }
  return i;
}

inline void add_weighted_values(float weight, float factor, const float* values, float* sums, std::size_t n) {
  static const bool has_fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  add_weighted_values_from(has_fma ? add_eights(weight, factor, values, sums, n) : 0, weight, factor, values,
                           sums, n);
}
#else
inline void add_weighted_values(float weight, float factor, const float* values, float* sums, std::size_t n) {
  add_weighted_values_from(0, weight, factor, values, sums, n);
}
#endif

}  // namespace baton::test
