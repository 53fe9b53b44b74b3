#pragma once
// The door from the host to the kernels of layout per_rank that move chunks, for both devices. No device code.
#include "baton/world.hpp"
#include "kernels/ep/outputs.hpp"
#include "kernels/ep/per_rank/launch.hpp"
#include "kernels/ep/per_rank_chunks/endpoint.hpp"

namespace baton::ep::per_rank_chunks {

using per_rank::half;
using per_rank::launch_limits;

/// Empty if kernels find everything in a communicator of these sizes, or why not.
std::string why_not(const shape& s);

/// Enqueues dispatch, or a half of it.
void launch(const world& w, const endpoint& end, const launch_limits& limits, const round_input& in,
            stream_ref stream);

/// Enqueues combine, or a half of it. Defined for store_fp32 and store_bf16.
template <class Output>
void launch(const world& w, const endpoint& end, const launch_limits& limits, const combine_input& in,
            const Output& output, stream_ref stream);

}  // namespace baton::ep::per_rank_chunks
