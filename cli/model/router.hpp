#pragma once
// The router of an MoE layer: softmax over all experts, the top_k most probable, weights renormalised.
#include <cstdint>
#include <span>
#include <vector>

#include "cli/model/moe_backend.hpp"

namespace baton::model {

struct router_shape {
  int num_experts = 0;
  int hidden = 0;
  int top_k = 0;
  bool renormalise = true;  // norm_topk_prob: the chosen weights sum to 1
};

/// Logits, softmax and weights in fp32, logits accumulated in fp32 in a fixed order: the same token gets the
/// same routing whatever else is in the batch. Ties between experts go to the lower id.
class router {
 public:
  /// `weight` is [num_experts, hidden], mlp.gate.weight of the checkpoint.
  /// @throws invalid_argument  weight does not have that size, or top_k is not in [1, num_experts]
  router(router_shape shape, std::vector<float> weight);

  const router_shape& shape() const { return shape_; }
  std::span<const float> weight() const { return weight_; }

  /// Routes `hidden` [tokens, hidden] and returns it with the choice.
  routed_tokens route(std::vector<bfloat16> hidden) const;

 private:
  router_shape shape_;
  std::vector<float> weight_;
};

/// The choice in double precision, for tests and reports.
struct exact_routing {
  std::vector<std::int32_t> topk_idx;  // [tokens, top_k]
  std::vector<double> topk_weights;    // [tokens, top_k]
  std::vector<double> probabilities;   // [tokens, num_experts]
};
exact_routing route_in_double(const router& router, std::span<const bfloat16> hidden);

}  // namespace baton::model
