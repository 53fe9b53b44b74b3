// The kernels between rows and places of their own, compiled for GPUs.
#include "device/entry.cuh"
#include "kernels/padded_rows/kernel.hpp"

namespace baton {
using namespace padded;

BATON_KERNEL(padded::kernel<direction::pad>, padded::params);
BATON_KERNEL(padded::kernel<direction::unpad>, padded::params);

}  // namespace baton
