#pragma once
#include "kernels/ep/launch.hpp"

namespace baton::ep {

/// Enqueues the kernel on `stream` of the rank's device. Defined only in builds with CUDA.
template <class Params>
void launch_cuda(const world& w, const launch_config& c, const Params& p, stream_ref stream);

}  // namespace baton::ep
