#pragma once
#include <cmath>
#include <limits>

#include "base/macros.hpp"
#include "baton/activation.hpp"

namespace baton {

/// Those of a sigmoid: v / (1 + exp(-v (linear + cubic v^2))).
struct sigmoid_factors {
  float linear, cubic;
};
/// gelu's tanh(u) is 2 / (1 + exp(-2 u)) - 1, with u = sqrt(2 / pi) (v + 0.044715 v^3).
BATON_FN sigmoid_factors factors_of(activation a) {
  return a == activation::gelu ? sigmoid_factors{1.5957691216f, 0.0713548163f} : sigmoid_factors{1, 0};
}
/// exp is the device's, within 2 units in the last place.
BATON_FN float by_sigmoid(float v, const sigmoid_factors& f) {
  constexpr float most_square = 0x1p100f;  // squares stay finite: far below, the sigmoid is 0 or 1
  return v / (1.0f + expf(-v * fmaf(f.cubic, fminf(v * v, most_square), f.linear)));
}
BATON_FN float relu(float v) {
  return v < 0.0f ? 0.0f : v;  // what is no number stays none
}

BATON_FN float activated(activation a, float v) {
  if (a == activation::none) return v;
  return a == activation::relu ? relu(v) : by_sigmoid(v, factors_of(a));
}

/// Those of g / (1 + exp(-slope g)) * (u + plus), with g and u within limits.
struct gate_factors {
  float limit, slope, plus;
};
/// -0 is what leaves -0 as it is, too.
BATON_FN gate_factors factors_of(gating how) {
  return how == gating::clamped ? gate_factors{7, 1.702f, 1}
                                : gate_factors{std::numeric_limits<float>::infinity(), 1, -0.0f};
}
BATON_FN float gated(float gate, float up, const gate_factors& f) {
  const float g = gate > f.limit ? f.limit : gate;  // what is no number stays none
  const float u = up > f.limit ? f.limit : up < -f.limit ? -f.limit : up;
  return g / (1.0f + expf(-f.slope * g)) * (u + f.plus);
}

}  // namespace baton
