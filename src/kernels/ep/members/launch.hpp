#pragma once
// The door from the host to the kernel in which members meet, for both devices. No device code.
#include "baton/world.hpp"
#include "kernels/ep/members/params.hpp"

namespace baton::ep::members {

/// Enqueues a step of a meeting.
void launch(const world& w, const params& p, stream_ref stream);

}  // namespace baton::ep::members
