#pragma once
// The one way to launch a kernel, on either device. For sources that see kernels' bodies; device code is not among them.
#include <functional>

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

/// Enqueues a kernel on the rank's queue `stream` of the CPU machine. What is the same for all kernels, or for all with the same
/// parameters, is compiled once.
void launch_on_cpu(const world& w, const launch_grid& g, std::function<void(sim::context&)> kernel,
                   stream_ref stream);

template <class Params>
[[gnu::noinline]] void launch_on_cpu(const world& w, const launch_grid& g,
                                     void (*run)(sim::context&, const Params&), const Params& p,
                                     stream_ref stream) {
  launch_on_cpu(
      w, g, [run, p](sim::context& x) { run(x, p); }, stream);
}

template <class Kernel, class Params>
void launch_on_cpu(const world& w, const launch_grid& g, const Params& p, stream_ref stream) {
  launch_on_cpu(w, g, &run_on_cpu<Kernel, Params>, p, stream);
}

/// Enqueues a kernel on `stream` of the rank's device.
template <class Kernel, class Params>
void launch(const world& w, launch_grid g, const Params& p, stream_ref stream) {
  g.cluster = bounds_of<Kernel>().cluster;
  if (w.device() == device_kind::cpu) return launch_on_cpu<Kernel>(w, g, p, stream);
  launch_on_cuda<Kernel>(w, g, p, w.state().limits(g.slot), stream);
}

}  // namespace baton
