#pragma once
// The only door to attention from the host, for both devices. No device code. `Problem` is one of attention.hpp's.
#include <cstddef>

#include "baton/attention.hpp"

namespace baton::attention_kernels {

/// What of the sizes is refused (arguments.hpp), or what keeps the device from it: support.hpp on CUDA, nothing on the CPU.
template <class Problem>
attention_support support_of(device_kind device, const Problem& problem);

/// @throws invalid_argument, unsupported  as run
template <class Problem>
std::size_t scratch_bytes(device_kind device, const Problem& problem);

/// Enqueues it on `stream` and returns: kernels on CUDA, loops on the CPU.
/// @throws invalid_argument  a size or choice is wrong, or memory null or misaligned
/// @throws unsupported       support_of(world.device(), problem)
/// @throws cuda_error        the launch failed
template <class Problem>
void run(const world& w, const Problem& problem, void* scratch, stream_ref stream);

}  // namespace baton::attention_kernels
