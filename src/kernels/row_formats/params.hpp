#pragma once
// What a kernel that writes rows in some format is asked: by value, as a __grid_constant__. Shapes in elements.
#include <cstdint>

#include "base/math.hpp"
#include "baton/token_format.hpp"

namespace baton::row_formats {

inline constexpr int max_ranges = 1024;

/// Of rows that a dispatch left; see received_tokens.
struct stored_input {
  const void* scales;
  scale_places places;
  const float* tensor_scale;       // nvfp4
  const std::int32_t* token_rows;  // null: row r is the r-th
  int num_token_rows, row_bytes;
};

struct params {
  const void*
      in;  // [max_rows, columns] bf16 or fp32, or [max_rows, 2 * columns] bf16: gate | up; or stored rows
  stored_input stored;
  void* values;  // [max_rows, columns] in the format
  void* scales;
  const float* tensor_scale;   // nvfp4: one, or null
  const std::int32_t* counts;  // [num_ranges]; null: all rows
  const std::int32_t* firsts;  // [num_ranges]; null: 0
  scale_places places;         // its rows: max_rows
  int columns, num_ranges;
  int steps;  // of a row, each a warp's
  divider steps_divider;
};

}  // namespace baton::row_formats
