#pragma once
// RMS normalisation.
#include <cmath>
#include <cstddef>
#include <span>

#include "base/dot.hpp"

namespace baton::model {

/// A size of a configuration, for use with those of arrays.
inline std::size_t size(int n) {
  return static_cast<std::size_t>(n);
}

/// y = x / sqrt(mean(x^2) + eps) * weight for one row; x and y may be the same row.
inline void rms_norm(const float* x, std::span<const float> weight, float eps, float* y) {
  const std::size_t n = weight.size();
  const float scale = 1.0f / std::sqrt(dot(x, x, n) / static_cast<float>(n) + eps);
  for (std::size_t i = 0; i < n; ++i) y[i] = x[i] * scale * weight[i];
}

}  // namespace baton::model
