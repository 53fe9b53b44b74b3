#pragma once
// A weighted sum of bf16 rows, 8 columns at a time: sum[i] = fma(weight, value[i], sum[i]), each rounded once. And sums of values
// with scales.
// Bits are the same wherever it runs.
#include <cmath>
#include <cstdint>

#include "base/convert.hpp"
#include "base/macros.hpp"

namespace baton {

/// One column after the other; where the CPU has no fused multiply-add this is a call into libm for each.
BATON_FN void add_weighted_by_column(float (&sum)[8], float weight, const std::uint32_t (&values)[4]) {
  for (int i = 0; i < 4; ++i) {
    sum[2 * i] = std::fma(weight, low_bf16(values[i]), sum[2 * i]);
    sum[2 * i + 1] = std::fma(weight, high_bf16(values[i]), sum[2 * i + 1]);
  }
}

#if defined(__CUDACC__)
BATON_FN void add_weighted(float (&sum)[8], float weight, const std::uint32_t (&values)[4]) {
  add_weighted_by_column(sum, weight, values);
}
#else
/// With what this CPU has, which a build for every CPU of its kind must find out when it runs.
void add_weighted(float (&sum)[8], float weight, const std::uint32_t (&values)[4]);
#endif

/// x * y rounded: no part of a fused multiply-add, which compilers may make of a product and a sum.
BATON_FN float rounded_product(float x, float y) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(x, y);
#else
  return static_cast<float>(static_cast<double>(x) * static_cast<double>(y));
#endif
}

/// Four e4m3 with a scale: sum[i] += value[i] * scale, product and sum rounded each, so that what is added is a number of its
/// own, and two such sums can be added either way round.
BATON_FN void add_scaled_e4m3(float* sum, float scale, std::uint32_t values) {
  float value[4];
  widen_e4m3(values, value);
  BATON_UNROLL
  for (int i = 0; i < 4; ++i) sum[i] += rounded_product(value[i], scale);
}

}  // namespace baton
