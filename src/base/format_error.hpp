#pragma once
// How far a format moves values, for those who check results: host code.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/block_format.hpp"

namespace baton {

namespace format_error_detail {
template <token_format Format>
float scale_of(const bfloat16* block) {
  std::uint32_t most = 0;
  for (int first = 0; first < facts_of(Format).block; first += lane_values) {
    float v[lane_values];
    for (int i = 0; i < lane_values; ++i) v[i] = static_cast<float>(block[first + i]);
    most = larger(most, block_format<Format>::largest(v));
  }
  return static_cast<float>(block_format<Format>::scale_of(most, {}).stored);
}
}  // namespace format_error_detail

/// The scale of a block of facts_of(format).block values, without a tensor scale; 0 with bf16.
inline double scale_of(token_format format, const bfloat16* block) {
  using namespace format_error_detail;
  switch (format) {
    case token_format::blockwise_fp8:
      return static_cast<double>(scale_of<token_format::blockwise_fp8>(block));
    case token_format::mxfp8:
      return static_cast<double>(scale_of<token_format::mxfp8>(block));
    case token_format::mxfp4:
      return static_cast<double>(scale_of<token_format::mxfp4>(block));
    case token_format::nvfp4:
      return static_cast<double>(scale_of<token_format::nvfp4>(block));
    default:
      return 0;
  }
}

/// The most by which value * scale is off from `x`, of a block with that scale: half the distance of its neighbours, relative or
/// at the smallest numbers; or what saturates. The last term covers fp32's roundings of scale, reciprocal and product.
inline double format_error(token_format format, double x, double scale) {
  if (format == token_format::bf16) return 0;
  const bool is_e4m3 = facts_of(format).value_bits == 8;
  const double size = std::fabs(x);
  const double relative = is_e4m3 ? 0x1p-4 : 0x1p-2, smallest = is_e4m3 ? 0x1p-10 : 0x1p-2,
               most = is_e4m3 ? 448 : 6;
  return std::max({relative * size, smallest * scale, size - most * scale}) + 0x1p-20 * size;
}

}  // namespace baton
