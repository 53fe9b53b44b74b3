#pragma once
// Rows of any format as floats, on the host.
#include <cstddef>

#include "base/block_format.hpp"
#include "baton/expert_parallel.hpp"

namespace baton {

namespace stored_rows_detail {
template <token_format Format>
void widen_row(const received_tokens& rows, std::size_t row, float* to) {
  const auto hidden = static_cast<std::size_t>(rows.hidden);
  const std::int64_t first = static_cast<std::int64_t>(row * hidden);
  if constexpr (Format == token_format::bf16) {
    for (std::size_t i = 0; i < hidden; ++i)
      to[i] = static_cast<float>(static_cast<const bfloat16*>(rows.tokens)[row * hidden + i]);
  } else {
    using stored = typename block_format<Format>::stored;
    constexpr int block = facts_of(Format).block;
    const scale_places places{rows.scales_layout, rows.max_rows, rows.hidden / block};
    const float tensor = rows.tensor_scale == nullptr ? 1.0f : *rows.tensor_scale;
    for (int b = 0; b < places.blocks; ++b) {
      const auto at = places.at(static_cast<int>(row), b);
      const float scale = static_cast<float>(static_cast<const stored*>(rows.scales)[at]) * tensor;
      for (int i = b * block; i < (b + 1) * block; ++i)
        to[i] = stored_value<Format>(rows.tokens, first + i) * scale;
    }
  }
}
}  // namespace stored_rows_detail

/// Row `row` as rows.hidden floats: value * (scale * tensor scale). Everything that `rows` points to is memory of the host.
inline void widen_row(const received_tokens& rows, std::size_t row, float* to) {
  using namespace stored_rows_detail;
  switch (rows.format) {
    case token_format::bf16:
      return widen_row<token_format::bf16>(rows, row, to);
    case token_format::blockwise_fp8:
      return widen_row<token_format::blockwise_fp8>(rows, row, to);
    case token_format::mxfp8:
      return widen_row<token_format::mxfp8>(rows, row, to);
    case token_format::mxfp4:
      return widen_row<token_format::mxfp4>(rows, row, to);
    case token_format::nvfp4:
      return widen_row<token_format::nvfp4>(rows, row, to);
  }
}

}  // namespace baton
