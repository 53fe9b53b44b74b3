#pragma once
#include "kernels/ring_gemm/launch.hpp"

namespace baton::ring_gemm_kernels {

/// Enqueues the kernel on `stream` of the rank's device. Defined only in builds with CUDA.
void launch_cuda(const world& w, const launch_config& c, const params& p, stream_ref stream);

}  // namespace baton::ring_gemm_kernels
