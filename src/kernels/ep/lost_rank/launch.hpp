#pragma once
// The door from the host to the kernel that asks who was lost, for both devices. No device code.
#include "baton/world.hpp"
#include "protocol/lost_rank.hpp"

namespace baton::ep::lost_rank {

/// Enqueues it behind a kernel that may give up.
void launch(const world& w, const loss_words& words, bool has_two_levels, stream_ref stream);

}  // namespace baton::ep::lost_rank
