#pragma once
// Rows of any format as floats, on the host.
#include <algorithm>
#include <cstddef>

#include "base/block_format.hpp"
#include "baton/expert_parallel.hpp"

namespace baton {

namespace stored_rows_detail {

/// A row's token. What the device says of where it lies is bounded before it is followed.
class stored_token {
 public:
  stored_token(const received_tokens& rows, std::size_t row)
      : rows_{rows}, row_{static_cast<int>(row)}, facts_{facts_of(rows.format)} {
    std::size_t bytes = static_cast<std::size_t>(facts_.row_bytes(rows.hidden));
    if (rows.token_rows != nullptr) {
      row = static_cast<std::size_t>(std::clamp(rows.token_rows[row], 0, rows.max_token_rows - 1));
      bytes = static_cast<std::size_t>(rows.row_bytes);
      if (rows.scales != nullptr) scales_ = static_cast<const std::byte*>(rows.scales) + row * bytes;
    }
    values_ = static_cast<const std::byte*>(rows.tokens) + row * bytes;
  }
  const std::byte* values() const { return values_; }
  template <class Stored>
  float scale(int block) const {
    if (scales_ != nullptr) return static_cast<float>(reinterpret_cast<const Stored*>(scales_)[block]);
    const scale_places places{rows_.scales_layout, rows_.max_rows, facts_.row_scales(rows_.hidden)};
    return static_cast<float>(static_cast<const Stored*>(rows_.scales)[places.at(row_, block)]);
  }

 private:
  const received_tokens& rows_;
  int row_;
  format_facts facts_;
  const std::byte* values_;
  const std::byte* scales_ = nullptr;  // beside the token's values
};

template <token_format Format>
void widen_row(const received_tokens& rows, std::size_t row, float* to) {
  const stored_token token{rows, row};
  if constexpr (Format == token_format::bf16) {
    for (int i = 0; i < rows.hidden; ++i)
      to[i] = static_cast<float>(reinterpret_cast<const bfloat16*>(token.values())[i]);
  } else {
    constexpr int block = facts_of(Format).block;
    const float tensor = rows.tensor_scale == nullptr ? 1.0f : *rows.tensor_scale;
    for (int b = 0; b < rows.hidden / block; ++b) {
      const float scale = token.scale<typename block_format<Format>::stored>(b) * tensor;
      for (int i = b * block; i < (b + 1) * block; ++i)
        to[i] = stored_value<Format>(token.values(), i) * scale;
    }
  }
}
}  // namespace stored_rows_detail

/// Row `row` of blockwise_fp8 as rows.hidden values and their scales.
inline void stored_values(const received_tokens& rows, std::size_t row, float* values, float* scales) {
  const stored_rows_detail::stored_token token{rows, row};
  for (int i = 0; i < rows.hidden; ++i)
    values[i] = stored_value<token_format::blockwise_fp8>(token.values(), i);
  for (int b = 0; b < facts_of(token_format::blockwise_fp8).row_scales(rows.hidden); ++b)
    scales[b] = token.scale<float>(b);
}

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
