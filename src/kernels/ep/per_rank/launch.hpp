#pragma once
// The door from the host to the kernels of layout per_rank, for both devices. No device code.
#include "baton/world.hpp"
#include "kernels/ep/outputs.hpp"
#include "kernels/ep/per_rank/endpoint.hpp"

namespace baton::ep::per_rank {

/// Which halves of a fused call one kernel does.
enum class half { both, send, receive };

/// What a launch may take, and what it does.
struct launch_limits {
  int blocks = 1;
  int threads = 0;  // of a block; 0: as many as the work needs
  half which = half::both;
  int slot = -1;                       // of the communicator, if it has several
  bool threads_are_asked_for = false;  // by the caller; else a kernel that needs others takes them
  bool only_loads = false;             // launch_grid's

  /// A kernel that has begun and waits for the one before it keeps SMs that another slot's may need to go on.
  bool begin_early() const { return slot < 0; }
};

/// Empty if a dispatch block has room for a communicator of these sizes; otherwise why not.
std::string why_not(const shape& s);

/// Enqueues dispatch, or a half of it; by lines or by flags, as the endpoint is.
void launch(const world& w, const endpoint& end, const launch_limits& limits, const round_input& in,
            stream_ref stream);
void launch(const world& w, const flag_endpoint& end, const launch_limits& limits, const round_input& in,
            stream_ref stream);

/// Enqueues combine, or a half of it. Defined for store_fp32 and store_bf16.
template <class Output>
void launch(const world& w, const endpoint& end, const launch_limits& limits, const combine_input& in,
            const Output& output, stream_ref stream);
template <class Output>
void launch(const world& w, const flag_endpoint& end, const launch_limits& limits, const combine_input& in,
            const Output& output, stream_ref stream);

}  // namespace baton::ep::per_rank
