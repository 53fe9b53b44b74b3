#pragma once
// Launches of the probe's kernels. Defined only in builds with CUDA.
#include "baton/world.hpp"
#include "kernels/probe/params.hpp"

namespace baton::probe {

/// On the current device.
void launch_push(const push_params& p, int blocks, stream_ref stream);
/// Relaxed stores and loads, or release and acquire, at system scope.
void launch_bounce(const bounce_params& p, bool ordered, const wait_limits& limits, stream_ref stream);

}  // namespace baton::probe
