#pragma once
// What the CUDA expert MLP asks of its arguments, checked on the host before anything is enqueued.
#include "baton/expert_mlp.hpp"

namespace baton::expert_mlp_cuda {

/// Throws invalid_argument with the first thing that is wrong, by name and value.
void require(const expert_weights& weights, const received_tokens& rows, const bfloat16* out,
             const void* scratch);

}  // namespace baton::expert_mlp_cuda
