#pragma once
// The MoE layer in double precision from the bf16 weights: what every other backend is measured against.
#include <map>
#include <vector>

#include "cli/model/checkpoint.hpp"
#include "cli/model/moe_backend.hpp"

namespace baton::model {

/// [tokens, hidden]: sum over k of weight_k * down(silu(gate x) . (up x)) in double. Ids of -1 add nothing.
/// `experts` holds all experts of the layer.
std::vector<double> moe_in_double(const expert_matrices& experts, const routed_tokens& tokens);

/// moe_in_double behind the seam, rounded to fp32 once. Reads the experts of a layer when it first needs
/// them.
class reference_moe : public moe_backend {
 public:
  explicit reference_moe(checkpoint weights) : weights_{std::move(weights)} {}
  void run(int layer, std::span<const routed_tokens> ranks, std::span<std::vector<float>> outputs) override;

  const expert_matrices& layer_experts(int layer);

 private:
  checkpoint weights_;
  std::map<int, expert_matrices> layers_;
};

}  // namespace baton::model
