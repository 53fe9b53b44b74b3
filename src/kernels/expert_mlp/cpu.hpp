#pragma once
// expert_mlp on host memory, in plain loops.
#include "baton/expert_mlp.hpp"

namespace baton::expert_mlp_cpu {

/// See baton::expert_mlp. Reads row_offsets and row_counts when called; touches only the rows of experts.
void run(const expert_weights& weights, const received_tokens& rows, bfloat16* out);

}  // namespace baton::expert_mlp_cpu
