#include "cli/model/reference_moe.hpp"

#include <fmt/format.h>

#include "baton/error.hpp"
#include "cli/model/expert_in_double.hpp"

namespace baton::model {

std::vector<double> moe_in_double(const expert_matrices& experts, const routed_tokens& tokens) {
  require_routing(experts, tokens);
  const auto hidden = static_cast<std::size_t>(experts.hidden);
  std::vector<double> sum(static_cast<std::size_t>(tokens.tokens) * hidden);
  expert_in_double expert{experts};
  for_each_choice(tokens, [&](std::size_t token, std::int32_t id, double weight) {
    const auto& y = expert.run(id, tokens.hidden.data() + token * hidden);
    for (std::size_t i = 0; i < hidden; ++i) sum[token * hidden + i] += weight * y[i];
  });
  return sum;
}

const expert_matrices& reference_moe::layer_experts(int layer) {
  const auto found = layers_.find(layer);
  if (found != layers_.end()) return found->second;
  return layers_.emplace(layer, weights_.experts(layer, 0, weights_.config().num_experts)).first->second;
}

void reference_moe::run(int layer, std::span<const routed_tokens> ranks,
                        std::span<std::vector<float>> outputs) {
  if (ranks.size() != outputs.size()) {
    throw invalid_argument{
        fmt::format("outputs: expected one for each of {} ranks, found {}", ranks.size(), outputs.size())};
  }
  const expert_matrices& experts = layer_experts(layer);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const auto exact = moe_in_double(experts, ranks[r]);
    outputs[r].assign(exact.begin(), exact.end());
  }
}

}  // namespace baton::model
