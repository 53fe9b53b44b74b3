#pragma once
// The seam between the host's model and whatever runs its experts.
#include <cstdint>
#include <span>
#include <vector>

#include "baton/numeric.hpp"

namespace baton::model {

/// What one rank brings to an MoE layer: its tokens after the norm before it, rounded to bf16, and their
/// routing.
struct routed_tokens {
  int tokens = 0;                      // 0: the rank has none in this step; the vectors are empty
  std::vector<bfloat16> hidden;        // [tokens, hidden]
  std::vector<std::int32_t> topk_idx;  // [tokens, top_k], best first
  std::vector<float> topk_weights;     // [tokens, top_k]
};

/// Runs the experts of one MoE layer for all ranks at once.
class moe_backend {
 public:
  virtual ~moe_backend() = default;

  /// outputs[r] becomes [ranks[r].tokens, hidden] fp32: the weighted sum over each token's experts. The
  /// backend resizes it. `ranks` and `outputs` have one entry a rank.
  virtual void run(int layer, std::span<const routed_tokens> ranks,
                   std::span<std::vector<float>> outputs) = 0;
};

}  // namespace baton::model
