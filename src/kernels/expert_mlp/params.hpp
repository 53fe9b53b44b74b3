#pragma once
#include <cstdint>

#include "baton/numeric.hpp"

namespace baton::expert_mlp_kernels {

/// What one step reads and writes: passed by value as a __grid_constant__. Shapes in elements.
struct params {
  const void* a;  // rows of k values, bf16 or e4m3
  const std::int32_t*
      token_rows;           // [max_rows]: which row of a, of num_token_rows; null: rows of a are in order
  const float* scales;      // with e4m3, one for each row and 128 of k; else null
  const bfloat16* weights;  // [num_experts, n, k]  gate, or down
  const bfloat16* up;       // [num_experts, n, k]  with gate_up, else null
  bfloat16* out;            // [max_rows, n]
  const std::int32_t* row_offsets;  // [num_experts + 1]
  const std::int32_t* row_counts;   // [num_experts]
  int num_experts, max_rows, num_token_rows, n, k;
  int row_bytes;               // from a row of a to the next
  int scale_row, scale_block;  // from a row's scale to the next one's, and from one of 128 of k to the next
};

}  // namespace baton::expert_mlp_kernels
