// The kernel that looks for torn lines, compiled for GPUs.
#include "device/entry.cuh"
#include "kernels/torn_lines/kernel.hpp"

namespace baton {

BATON_KERNEL(torn_lines::kernel, torn_lines::params);

}  // namespace baton
