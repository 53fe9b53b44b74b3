#pragma once
#include <cstdint>

#include "baton/numeric.hpp"

namespace baton::expert_mlp_kernels {

/// What one step reads and writes: passed by value as a __grid_constant__. Shapes in elements.
struct params {
  const void* a;                    // [max_rows, k]  bf16 or e4m3
  const float* scales;              // [k / 128, max_rows] with e4m3, else null
  const bfloat16* weights;          // [num_experts, n, k]  gate, or down
  const bfloat16* up;               // [num_experts, n, k]  with gate_up, else null
  bfloat16* out;                    // [max_rows, n]
  const std::int32_t* row_offsets;  // [num_experts + 1]
  const std::int32_t* row_counts;   // [num_experts]
  int num_experts, max_rows, n, k;
};

}  // namespace baton::expert_mlp_kernels
