#pragma once
// A weighted sum of bf16 rows, 8 columns at a time: sum[i] = fma(weight, value[i], sum[i]), each rounded once.
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

}  // namespace baton
