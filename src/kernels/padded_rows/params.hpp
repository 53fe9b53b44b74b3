#pragma once
// What the kernels between rows and places of their own are asked: by value, as a __grid_constant__.
#include <cstddef>
#include <cstdint>

#include "base/math.hpp"
#include "baton/received_tokens.hpp"

namespace baton::padded {

inline constexpr int max_experts = 1024;
inline constexpr int step_bytes = 2048;  // of a row, that a warp copies at a time
inline constexpr int scales_of_item = 8;

struct params {
  std::byte* rows;             // [max_rows, row_bytes]: as a dispatch left them, or as combine takes them
  std::byte* places;           // [experts, capacity, row_bytes]; null: values are left out
  const std::int32_t* counts;  // [experts]: rows of each
  const std::int32_t* firsts;  // [experts]: its first row
  int experts, capacity, max_rows, row_bytes;
  int steps;  // of a row, each a warp's
  divider steps_divider;

  // Of pad_rows alone.
  const source_info* sources;  // [max_rows]
  const float* scales;         // at scale_places; null: none
  scale_places scale_at;
  void* scales_out;
  bool as_exponents;
  int scale_columns;  // of scales_out: blocks, or fours of them; 0: none
  std::int32_t *counts_out, *tokens_out;
  std::int64_t* ranges_out;
  int num_ranks;
};

}  // namespace baton::padded
