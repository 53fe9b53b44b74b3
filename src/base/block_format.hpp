#pragma once
// Rows whose values share scales (baton/token_format.hpp has the rules): what one lane does with 16 consecutive values, or with
// as many as are packed into whole words. The same arithmetic on every device, bit for bit.
//
// block_format<F>, for F with scales:
//   lanes_per_block          lanes whose largest() make up a block's
//   largest(v)               bits of the largest magnitude of the lane's values
//   scale_of(most, tensor)   the scale of a block of which `most` is that
//   pack(v, scale, word)     the lane's values, scaled and rounded
#include <bit>
#include <cstdint>
#include <type_traits>

#include "base/convert.hpp"
#include "base/macros.hpp"
#include "base/math.hpp"
#include "baton/numeric.hpp"
#include "baton/token_format.hpp"

namespace baton {

inline constexpr int lane_values = 16;

/// What nvfp4 makes of its tensor scale, once for all blocks.
struct tensor_scaling {
  float scale = 1.0f;
  float inverse_of_6 = 1.0f / 6.0f;  // 1 / (6 * scale)
};
BATON_FN tensor_scaling tensor_scaling_of(float scale) {
  return {scale, 1.0f / (6.0f * scale)};
}

/// The scale as it is stored, what values are multiplied by, and the bits that are left of packed values: none in a block that is
/// NaN or 0.
template <class Stored>
struct block_scale {
  Stored stored;
  float inverse;
  std::uint32_t kept;
};

template <token_format Format>
struct block_format {
  static constexpr format_facts facts = facts_of(Format);
  static constexpr int lanes_per_block = facts.block / lane_values;
  static constexpr int words = facts.row_bytes(lane_values) / 4;
  static constexpr bool is_fp8_block = Format == token_format::blockwise_fp8,
                        is_nv = Format == token_format::nvfp4;
  struct alignas(4 * words) packed {
    std::uint32_t word[words];
  };
  using stored = std::conditional_t<is_fp8_block, float, std::conditional_t<is_nv, float8_e4m3, float8_e8m0>>;

  /// NaN is above infinity above all numbers, but for blockwise_fp8, where it loses.
  template <int n>
  static BATON_FN std::uint32_t largest(const float (&v)[n]) {
    std::uint32_t most = 0;
    BATON_UNROLL
    for (int i = 0; i < n; ++i) {
      const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(v[i]) & 0x7fffffffu;
      if (!is_fp8_block || magnitude <= infinity) most = larger(most, magnitude);
    }
    return most;
  }

  static BATON_FN block_scale<stored> scale_of(std::uint32_t most, const tensor_scaling& tensor) {
    if constexpr (is_fp8_block) {
      const float scale = larger(std::bit_cast<float>(most), 1e-4f) / 448.0f;
      return {scale, 1.0f / scale, ~0u};
    } else if constexpr (is_nv) {
      if (most >= infinity) return {float8_e4m3::from_bits(0x7f), 0.0f, 0u};
      const stored scale{std::bit_cast<float>(most) * tensor.inverse_of_6};
      if (scale.bits == 0) return {scale, 0.0f, 0u};
      return {scale, 1.0f / (static_cast<float>(scale) * tensor.scale), ~0u};
    } else {
      constexpr int exponent_of_largest = facts.value_bits == 8 ? 8 : 2;  // 448 is 1.75 * 2^8, 6 is 1.5 * 2^2
      if (most >= infinity) return {stored::from_bits(0xff), 0.0f, 0u};
      const int code = larger(static_cast<int>(most >> 23) - exponent_of_largest, 0);
      const auto inverse = static_cast<std::uint32_t>(254 - code) << 23;  // 2^(127 - code)
      return {stored::from_bits(static_cast<std::uint8_t>(code)), std::bit_cast<float>(inverse), ~0u};
    }
  }

  template <int n>
  static BATON_FN void pack(const float (&v)[n], const block_scale<stored>& s,
                            std::uint32_t (&word)[n * words / lane_values]) {
    constexpr int values = lane_values / words;
    BATON_UNROLL
    for (int i = 0; i < n / values; ++i) {
      float scaled[values];
      BATON_UNROLL
      for (int j = 0; j < values; ++j) scaled[j] = v[i * values + j] * s.inverse;
      if constexpr (facts.value_bits == 8)
        word[i] = pack_e4m3(scaled[0], scaled[1], scaled[2], scaled[3]) & s.kept;
      else
        word[i] = pack_e2m1(scaled) & s.kept;
    }
  }

 private:
  static constexpr std::uint32_t infinity = 0x7f800000;
};

/// Value `index` of `values`, before its scales.
template <token_format Format>
BATON_FN float stored_value(const void* values, std::int64_t index) {
  if constexpr (facts_of(Format).value_bits == 8) {
    return static_cast<float>(static_cast<const float8_e4m3*>(values)[index]);
  } else {
    const std::uint8_t pair = static_cast<const std::uint8_t*>(values)[index / 2];
    return static_cast<float>(
        float4_e2m1::from_bits(static_cast<std::uint8_t>(index % 2 == 0 ? pair & 15 : pair >> 4)));
  }
}

}  // namespace baton
