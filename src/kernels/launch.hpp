#pragma once
// The one way to launch a kernel, on either device. For sources that see kernels' bodies; device code is not among them.
#include "kernels/run_on_cpu.hpp"
#include "runtime/launch_on_cuda.hpp"
#include "runtime/world_state.hpp"
#include "sim/context.hpp"
#include "sim/machine.hpp"

namespace baton {

/// Emitted wherever a kernel is launched, for who has the declaration alone.
template <class Kernel, class Params>
[[gnu::used, gnu::noinline]] void run_on_cpu(sim::context& x, const Params& p) {
  Kernel::run(x, p);
}

/// Enqueues a kernel on the rank's queue `stream` of the CPU machine.
template <class Kernel, class Params>
void launch_on_cpu(const world& w, const launch_grid& g, const Params& p, stream_ref stream) {
  if (g.only_loads) return;
  const detail::world_state& state = w.state();
  const sim::grid grid{g.blocks, g.threads / warp_lanes, g.shared_bytes, state.limits(g.slot), g.cluster};
  state.machine->launch(
      state.rank, grid, [p](sim::context& x) { run_on_cpu<Kernel>(x, p); }, stream.native);
}

/// Enqueues a kernel on `stream` of the rank's device.
template <class Kernel, class Params>
void launch(const world& w, launch_grid g, const Params& p, stream_ref stream) {
  g.cluster = bounds_of<Kernel>().cluster;
  if (w.device() == device_kind::cpu) return launch_on_cpu<Kernel>(w, g, p, stream);
  launch_on_cuda<Kernel>(w, g, p, w.state().limits(g.slot), stream);
}

}  // namespace baton
