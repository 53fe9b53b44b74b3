#pragma once
// What the expert MLP asks of its arguments, checked on the host before anything is enqueued.
#include "baton/expert_mlp.hpp"

namespace baton::expert_mlp_kernels {

inline constexpr int max_local_experts = 1024;

/// Throws invalid_argument with the first thing that is wrong, by name and value.
void require(device_kind device, const expert_weights& weights, const received_tokens& rows,
             const bfloat16* out, const void* scratch);

/// The same for what decides how much scratch is needed.
void require_sizes(const expert_weights& weights, const received_tokens& rows);

}  // namespace baton::expert_mlp_kernels
