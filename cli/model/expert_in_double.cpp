#include "cli/model/expert_in_double.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "baton/error.hpp"

namespace baton::model {

expert_in_double::expert_in_double(const expert_matrices& experts)
    : experts_{experts},
      gate_(static_cast<std::size_t>(experts.intermediate)),
      up_(gate_.size()),
      inner_(gate_.size()),
      out_(static_cast<std::size_t>(experts.hidden)) {}

const std::vector<double>& expert_in_double::run(std::int32_t id, const bfloat16* x) {
  const int hidden = experts_.hidden, inter = experts_.intermediate;
  std::vector<double> wide(static_cast<std::size_t>(hidden));
  std::transform(x, x + hidden, wide.begin(), [](bfloat16 v) { return double{static_cast<float>(v)}; });
  for (int j = 0; j < inter; ++j) {
    const auto at = static_cast<std::size_t>(j);
    gate_[at] = dot_in_double(matrix_row(experts_.gate, id, inter, hidden, j), wide.data(), hidden);
    up_[at] = dot_in_double(matrix_row(experts_.up, id, inter, hidden, j), wide.data(), hidden);
    inner_[at] = silu(gate_[at]) * up_[at];
  }
  for (int i = 0; i < hidden; ++i) {
    out_[static_cast<std::size_t>(i)] =
        dot_in_double(matrix_row(experts_.down, id, hidden, inter, i), inner_.data(), inter);
  }
  return out_;
}

double silu(double v) {
  return v / (1.0 + std::exp(-v));
}

const bfloat16* matrix_row(const std::vector<bfloat16>& all, std::int32_t id, int rows, int columns,
                           int row) {
  return all.data() +
         (static_cast<std::size_t>(id) * static_cast<std::size_t>(rows) + static_cast<std::size_t>(row)) *
             static_cast<std::size_t>(columns);
}

void require_routing(const expert_matrices& experts, const routed_tokens& tokens) {
  const auto n = static_cast<std::size_t>(std::max(tokens.tokens, 0));
  const bool fits = tokens.tokens >= 0 &&
                    tokens.hidden.size() == n * static_cast<std::size_t>(experts.hidden) &&
                    tokens.topk_weights.size() == tokens.topk_idx.size() &&
                    (n == 0 ? tokens.topk_idx.empty() : tokens.topk_idx.size() % n == 0);
  if (!fits) {
    throw invalid_argument{
        fmt::format("tokens: expected {} x {} hidden values and as many ids as weights, found {} values, "
                    "{} ids, {} weights",
                    tokens.tokens, experts.hidden, tokens.hidden.size(), tokens.topk_idx.size(),
                    tokens.topk_weights.size())};
  }
  for (std::size_t i = 0; i < tokens.topk_idx.size(); ++i) {
    if (tokens.topk_idx[i] < experts.num_experts) continue;
    throw invalid_argument{fmt::format("topk_idx: expected ids below {}, found {} for token {}",
                                       experts.num_experts, tokens.topk_idx[i],
                                       i / (tokens.topk_idx.size() / n))};
  }
}

}  // namespace baton::model
