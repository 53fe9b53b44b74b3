// The kernel in which members meet, compiled for GPUs.
#include "device/entry.cuh"
#include "kernels/ep/members/kernel.hpp"

namespace baton {

BATON_KERNEL(ep::members::kernel, ep::members::params);

}  // namespace baton
