#pragma once
// Weights of block_fp8 (baton/weight_format.hpp): how they are made.
#include "base/math.hpp"
#include "baton/numeric.hpp"
#include "baton/weight_format.hpp"

namespace baton {

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
