#pragma once
// The door from the host to the kernels of layout per_expert, for both devices. No device code.
#include "baton/expert_parallel.hpp"
#include "baton/world.hpp"
#include "kernels/ep/outputs.hpp"
#include "kernels/ep/per_expert/params.hpp"

namespace baton::ep {

/// Which instantiation, and how large.
struct launch_config {
  token_format format = token_format::bf16;
  arrival_policy arrival = arrival_policy::epoch;
  int blocks = 1;
  int threads = 32;
  bool tokens_are_given = false;  // to dispatch_async in the format
  int slot = -1;                  // of the communicator, if it has several
};

/// Enqueues the kernel that these parameters are for; see kernels/launch.hpp. Defined for the parameters of every kernel,
/// with the outputs store_fp32, store_bf16 and store_unreduced.
template <class Params>
void launch(const world& w, const launch_config& c, const Params& p, stream_ref stream);

}  // namespace baton::ep
