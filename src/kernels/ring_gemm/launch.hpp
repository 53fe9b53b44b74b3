#pragma once
// The only door from the host to the ring-buffered product, for both devices. No device code.
#include "baton/ring_gemm.hpp"
#include "kernels/ring_gemm/config.hpp"
#include "kernels/ring_gemm/params.hpp"

namespace baton::ring_gemm_kernels {

/// One of the compiled configurations, and the most blocks it may use.
struct launch_config {
  ring_strategy strategy = ring_strategy::mbarrier;
  bool large = true;
  int num_sms = 1;
};

/// Enqueues the kernel on the rank's stream and returns. Throws cuda_error if the launch fails.
void launch(const world& w, const launch_config& c, const params& p, stream_ref stream);

}  // namespace baton::ring_gemm_kernels
