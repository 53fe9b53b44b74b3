#pragma once
#include <cmath>

#include "base/macros.hpp"

namespace baton {

/// 2^v: on GPUs the instruction's, within 2 units in the last place, and results below 2^-126 are 0.
BATON_FN float exp2_quickly(float v) {
#if defined(__CUDA_ARCH__)
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(v));
  return power;
#else
  return std::exp2(v);
#endif
}

/// The hyperbolic tangent, with an error of at most a few units of 2^-24, whatever its size.
BATON_FN float tanh_quickly(float v) {
  constexpr float two_log2_e = 2.885390081777927f;
#if defined(__CUDA_ARCH__)
  return 1.0f - __fdividef(2.0f, exp2_quickly(v * two_log2_e) + 1.0f);
#else
  return 1.0f - 2.0f / (exp2_quickly(v * two_log2_e) + 1.0f);
#endif
}

}  // namespace baton
