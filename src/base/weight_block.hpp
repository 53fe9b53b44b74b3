#pragma once
// Weights in FP8 as DeepSeek-V3's checkpoints have them: e4m3, and an fp32 scale for each block of 128 x 128 of a matrix.
// A weight is value * scale.
#include "base/math.hpp"
#include "baton/numeric.hpp"

namespace baton {

inline constexpr int weight_block =
    128;  // rows, and columns, that share a scale; the last blocks may have fewer

/// Of a block whose largest magnitude is `most`, so that it becomes e4m3's largest. A block of zeros has one too, and none is so
/// small that its reciprocal is infinite.
constexpr float weight_scale(float most) {
  return larger(most / 448.0f, 0x1p-126f);
}

/// Rounded to nearest, ties to even.
constexpr float8_e4m3 scaled_down(float weight, float scale) {
  return float8_e4m3{weight / scale};
}

}  // namespace baton
