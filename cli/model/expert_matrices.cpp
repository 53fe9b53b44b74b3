// Experts as other types than they are stored in.
#include "cli/model/checkpoint.hpp"

namespace baton::model {
namespace {

/// Matrices [rows, columns] one after the other.
std::vector<bfloat16> as_bf16(const std::vector<float8_e4m3>& values, const std::vector<float>& scales,
                              int rows, int columns) {
  const auto k = static_cast<std::size_t>(columns), blocks = static_cast<std::size_t>(weight_scales(columns)),
             of_matrix = static_cast<std::size_t>(weight_scales(rows)) * blocks;
  std::vector<bfloat16> wide(values.size());
  for (std::size_t i = 0; i < wide.size(); ++i) {
    const std::size_t row = i / k % static_cast<std::size_t>(rows),
                      matrix = i / k / static_cast<std::size_t>(rows);
    wide[i] = bfloat16{static_cast<float>(values[i]) *
                       scales[matrix * of_matrix + row / weight_block * blocks + i % k / weight_block]};
  }
  return wide;
}

}  // namespace

expert_matrices widened(expert_matrices experts) {
  if (experts.format == weight_format::bf16) return experts;
  const fp8_matrices& from = experts.fp8;
  const auto wide = [&](const auto& values, const auto& scales, int rows, int columns) {
    return as_bf16(values, scales, rows, columns);
  };
  const int hidden = experts.hidden, intermediate = experts.intermediate;
  return {experts.num_experts,
          hidden,
          intermediate,
          wide(from.gate, from.gate_scales, intermediate, hidden),
          wide(from.up, from.up_scales, intermediate, hidden),
          wide(from.down, from.down_scales, hidden, intermediate)};
}

}  // namespace baton::model
