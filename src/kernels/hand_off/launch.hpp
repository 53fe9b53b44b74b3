#pragma once
// Defined only in builds with CUDA.
#include "kernels/hand_off/hand_off.hpp"

namespace baton::hand_off {

/// On the current device.
void launch(const point& at, const params& p, stream_ref stream);

}  // namespace baton::hand_off
