#pragma once
// The only door into this kernel from the host. No device code, no templates.
#include <cstddef>

#include "baton/expert_mlp.hpp"

namespace baton::expert_mlp_kernels {

/// On CUDA the intermediate of every row: max_rows x intermediate bf16. Throws invalid_argument (arguments.hpp).
std::size_t scratch_bytes(const expert_weights& weights, int max_rows, device_kind device);

/// baton::expert_mlp on either device: two kernels on CUDA, plain loops on the CPU. Does not synchronise.
/// Throws invalid_argument (arguments.hpp) or cuda_error.
void run(const world& world, const expert_weights& weights, const received_tokens& rows, bfloat16* out,
         void* scratch, stream_ref stream);

}  // namespace baton::expert_mlp_kernels
