#include "cli/model/expert_in_double.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/math.hpp"
#include "baton/error.hpp"

namespace baton::model {

matrix_rows::matrix_rows(const expert_matrices& experts, expert_part part)
    : rows_{static_cast<std::size_t>(part == expert_part::down ? experts.hidden : experts.intermediate)},
      columns_{static_cast<std::size_t>(part == expert_part::down ? experts.intermediate : experts.hidden)} {
  const auto choose = [part](const auto& gate, const auto& up, const auto& down) {
    return part == expert_part::gate ? &gate : part == expert_part::up ? &up : &down;
  };
  if (experts.format == weight_format::bf16) {
    bf16_ = choose(experts.gate, experts.up, experts.down);
    return;
  }
  fp8_ = choose(experts.fp8.gate, experts.fp8.up, experts.fp8.down);
  scales_ = choose(experts.fp8.gate_scales, experts.fp8.up_scales, experts.fp8.down_scales);
  wide_.resize(columns_);
}

// A product of an e4m3 and a float is exact in double.
void matrix_rows::widen(std::size_t id, std::size_t row, std::size_t first) {
  const std::size_t blocks = ceil_div<std::size_t>(columns_, weight_block);
  const float* scales =
      scales_->data() + (id * ceil_div<std::size_t>(rows_, weight_block) + row / weight_block) * blocks;
  const float8_e4m3* values = fp8_->data() + first;
  for (std::size_t i = 0; i < columns_; ++i)
    wide_[i] = double{static_cast<float>(values[i])} * double{scales[i / weight_block]};
}

expert_in_double::expert_in_double(const expert_matrices& experts)
    : gate_rows_{experts, expert_part::gate},
      up_rows_{experts, expert_part::up},
      down_rows_{experts, expert_part::down},
      gate_(static_cast<std::size_t>(experts.intermediate)),
      up_(gate_.size()),
      inner_(gate_.size()),
      out_(static_cast<std::size_t>(experts.hidden)) {}

const std::vector<double>& expert_in_double::run(std::int32_t id, const bfloat16* x) {
  std::vector<double> wide(out_.size());
  std::transform(x, x + wide.size(), wide.begin(), [](bfloat16 v) { return double{static_cast<float>(v)}; });
  const auto product = [id](matrix_rows& rows, std::size_t row, const std::vector<double>& with) {
    return rows.with(id, row, [&](const auto* weights) {
      return dot_in_double(weights, with.data(), static_cast<int>(with.size()));
    });
  };
  for (std::size_t j = 0; j < inner_.size(); ++j) {
    gate_[j] = product(gate_rows_, j, wide);
    up_[j] = product(up_rows_, j, wide);
    inner_[j] = silu(gate_[j]) * up_[j];
  }
  for (std::size_t i = 0; i < out_.size(); ++i) out_[i] = product(down_rows_, i, inner_);
  return out_;
}

double silu(double v) {
  return v / (1.0 + std::exp(-v));
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
