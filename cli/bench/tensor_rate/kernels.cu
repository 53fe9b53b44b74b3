// What tensor cores do at most.
#include "cli/bench/tensor_rate/kernel.cuh"
#include "device/entry.cuh"

namespace baton {

BATON_KERNEL(tensor_rate::tensor_rate_kernel, tensor_rate::params);

}  // namespace baton
