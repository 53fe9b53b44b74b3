// The probe's kernels.
#include "cli/bench/probe/kernel.cuh"
#include "device/entry.cuh"

namespace baton {

BATON_KERNEL(probe::push_kernel, probe::push_params);
BATON_KERNEL(probe::bounce_kernel<order::relaxed, order::relaxed>, probe::bounce_params);
BATON_KERNEL(probe::bounce_kernel<order::acquire, order::release>, probe::bounce_params);
BATON_KERNEL(probe::greet_kernel, probe::greet_params);

}  // namespace baton
