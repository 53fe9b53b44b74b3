#pragma once
// The only door to the experts from the host. No device code, no templates.
#include <cstddef>

#include "baton/expert_mlp.hpp"

namespace baton::expert_mlp_kernels {

/// What scratch_plan says on CUDA, none on the CPU. Throws invalid_argument (arguments.hpp).
std::size_t scratch_bytes(const expert_weights& weights, const received_tokens& rows, device_kind device);

/// baton::expert_mlp on either device: products of groups on CUDA (kernels/gemm), after a kernel that makes rows what is
/// multiplied if they did not come so; plain loops on the CPU. Does not synchronise. Throws invalid_argument (arguments.hpp) or
/// cuda_error.
void run(const world& world, const expert_weights& weights, const received_tokens& rows, bfloat16* out,
         void* scratch, stream_ref stream);

}  // namespace baton::expert_mlp_kernels
