#pragma once
// How a kernel of a GPU is launched by a source that has no device code.
#include "baton/world.hpp"
#include "exec/kernel.hpp"
#include "exec/kernel_name.hpp"
#include "runtime/on_cuda.hpp"

namespace baton {

/// Enqueues a kernel on `stream` of the rank's GPU and returns: no allocation, no synchronisation.
/// @throws cuda_error   the launch failed
/// @throws unsupported  the build has no CUDA
template <class Kernel, class Params>
void launch_on_cuda(const world& w, const launch_grid& g, const Params& p, const wait_limits& limits,
                    stream_ref stream) {
  const void* entry = nullptr;
  if constexpr (on_cuda::is_built_in) entry = device_entry<Kernel, Params>();
  on_cuda::launch(w.device_index(), on_cuda::named_entry{entry, kernel_name<Kernel>()}, g, &p,
                  {w.rank(), limits}, stream);
}

/// Clusters of `g`, whatever its blocks, that work on the rank's GPU at a time, if nothing else does. The driver is asked once.
/// @throws cuda_error   the driver refuses
/// @throws unsupported  the build has no CUDA
template <class Kernel, class Params>
int most_clusters_on_cuda(const world& w, const launch_grid& g) {
  const void* entry = nullptr;
  if constexpr (on_cuda::is_built_in) entry = device_entry<Kernel, Params>();
  return on_cuda::most_clusters(w.device_index(), entry, g);
}

}  // namespace baton
