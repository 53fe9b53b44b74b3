#pragma once
// Launches a kernel that is compiled with the test, on the first device.
#include "device/entry.cuh"
#include "runtime/on_cuda.hpp"

namespace baton::test {

template <class Kernel, class Params>
void start(launch_grid grid, const Params& p, const launched_by& by) {
  grid.cluster = bounds_of<Kernel>().cluster;
  on_cuda::launch(0, on_cuda::named_entry{device_entry<Kernel, Params>()}, grid, &p, by, {});
}

}  // namespace baton::test
