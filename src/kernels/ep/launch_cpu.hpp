#pragma once
#include "kernels/ep/launch.hpp"

namespace baton::ep {

/// Enqueues the kernel on the rank's queue of the CPU machine.
template <class Params>
void launch_cpu(const world& w, const launch_config& c, const Params& p);

}  // namespace baton::ep
