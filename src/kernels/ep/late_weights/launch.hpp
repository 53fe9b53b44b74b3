#pragma once
// The door from the host to the kernel that brings weights which are given to combine. No device code.
#include "kernels/ep/late_weights/params.hpp"
#include "kernels/ep/per_rank/launch.hpp"

namespace baton::ep::late_weights {

/// Enqueues it between a round's dispatch and its combine. It waits for other ranks'.
void launch(const world& w, const per_rank::launch_limits& limits, const params& p, stream_ref stream);

}  // namespace baton::ep::late_weights
