#pragma once
#include "exec/group_mma.hpp"

namespace baton::tensor_rate {

inline constexpr int columns = 256, groups = 2;
inline constexpr int operand_rows = groups * group_rows + columns;  // A of each group, and B
inline constexpr int shared_bytes = operand_rows * operand_tile::row_bytes;

struct params {
  const vec16* values;  // [operand_rows * 8]: of the operands
  int steps;            // products of 64 x columns x 64 that each group does
  float* found;         // one: gets `never` if it is a result
  float never;
};

}  // namespace baton::tensor_rate
