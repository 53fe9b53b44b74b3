#pragma once
#include <cmath>

#include "base/macros.hpp"

namespace baton {

/// v / (1 + exp(-v)); exp is the device's, within 2 units in the last place.
BATON_FN float silu(float v) {
  return v / (1.0f + expf(-v));
}

}  // namespace baton
