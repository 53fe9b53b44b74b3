#pragma once
// What a kernel is to those who launch it: a type with `template <exec_context X> static BATON_FN void run(X& x, const
// Params& p)` where Params is trivially copyable and passed by value. The same type is launched on every device.
#include <cstddef>

#include "exec/exec.hpp"
#include "exec/wait.hpp"

namespace baton {

/// What the compiler of a kernel is promised. A kernel whose blocks are not the usual ones has a member
/// `static constexpr kernel_bounds bounds`.
struct kernel_bounds {
  int max_threads = 1024;  // of a block; a thread has 64 K / (max_threads * blocks_per_sm) registers
  int blocks_per_sm = 0;   // at least; 0: not promised
  int cluster = 1;         // blocks of a cluster; 0: as many as it is launched with
  bool in_groups = false;  // its warps work in groups of four: exec/group_mma.hpp
};

template <class Kernel>
constexpr kernel_bounds bounds_of() {
  if constexpr (requires { Kernel::bounds; })
    return Kernel::bounds;
  else
    return {};
}

/// How large a launch is.
struct launch_grid {
  int blocks = 1;
  int threads = warp_lanes;  // of a block, a multiple of warp_lanes
  std::size_t shared_bytes = 0;
  int cluster = 1;  // blocks of a cluster; divides blocks
  /// The kernel may begin, up to its await_dependencies, while those before it in the stream still run.
  bool begins_early = false;
  int slot = -1;            // for wait_limits
  bool only_loads = false;  // the kernel's code is on the device then, and nothing is enqueued
};

/// What every kernel is told beside its parameters: whose work it is, and when its waits give up.
struct launched_by {
  int rank = 0;
  wait_limits limits;
};

/// The GPU's function of a kernel. A line BATON_KERNEL in a .cu (device/entry.cuh) makes one, so that sources without
/// device code can launch it.
template <class Kernel, class Params>
const void* device_entry();

}  // namespace baton
