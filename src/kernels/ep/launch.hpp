#pragma once
// The only door from the host to the exchange kernels, for both devices. No device code.
#include "baton/world.hpp"
#include "exec/wait.hpp"
#include "kernels/ep/outputs.hpp"
#include "kernels/ep/params.hpp"

namespace baton::ep {

/// Which instantiation, and how large.
struct launch_config {
  token_format format = token_format::bf16;
  arrival_policy arrival = arrival_policy::epoch;
  int blocks = 1;
  int threads = 32;
  wait_limits limits;
};

// Each enqueues one kernel on the rank's stream and returns; throws cuda_error if the launch fails.
void launch(const world& w, const launch_config& c, const dispatch_async_params<>& p, stream_ref stream);
void launch(const world& w, const launch_config& c, const dispatch_wait_params& p, stream_ref stream);
void launch(const world& w, const launch_config& c, const combine_async_params& p, stream_ref stream);
void launch(const world& w, const launch_config& c, const combine_wait_params<store_fp32>& p,
            stream_ref stream);
void launch(const world& w, const launch_config& c, const combine_wait_params<store_bf16>& p,
            stream_ref stream);
void launch(const world& w, const launch_config& c, const combine_wait_params<store_unreduced>& p,
            stream_ref stream);

}  // namespace baton::ep
