// The kernel that brings weights which are given to combine, compiled for GPUs.
#include "device/entry.cuh"
#include "kernels/ep/late_weights/kernel.hpp"

namespace baton {
BATON_KERNEL(ep::late_weights::kernel, ep::late_weights::params);
}  // namespace baton
