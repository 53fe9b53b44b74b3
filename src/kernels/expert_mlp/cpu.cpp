#include "kernels/expert_mlp/cpu.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/dot.hpp"
#include "base/silu.hpp"
#include "base/stored_rows.hpp"

namespace baton::expert_mlp_cpu {
namespace {

constexpr std::size_t block_rows = 16;  // rows that share one conversion of each weight row

struct extents {
  std::size_t hidden, intermediate;
};

/// One expert's matrices.
struct matrices {
  const bfloat16 *gate, *up, *down;
};

/// Rows in flight, as fp32.
struct row_block {
  explicit row_block(extents e)
      : x(block_rows * e.hidden),
        inner(block_rows * e.intermediate),
        weight(std::max(e.hidden, e.intermediate)),
        second_weight(e.hidden) {}
  std::vector<float> x;                      // [block_rows, hidden]
  std::vector<float> inner;                  // [block_rows, intermediate]
  std::vector<float> weight, second_weight;  // a row of a matrix
};

/// inner = silu(gate x) . (up x)
void gate_and_up(const matrices& m, extents e, std::size_t count, row_block& block) {
  for (std::size_t j = 0; j < e.intermediate; ++j) {
    widen(m.gate + j * e.hidden, e.hidden, block.weight.data());
    widen(m.up + j * e.hidden, e.hidden, block.second_weight.data());
    for (std::size_t r = 0; r < count; ++r) {
      const float* x = block.x.data() + r * e.hidden;
      const float gate = dot(block.weight.data(), x, e.hidden);
      block.inner[r * e.intermediate + j] = silu(gate) * dot(block.second_weight.data(), x, e.hidden);
    }
  }
}

/// out = down inner, rounded once
void down(const matrices& m, extents e, std::size_t count, row_block& block, bfloat16* out) {
  for (std::size_t i = 0; i < e.hidden; ++i) {
    widen(m.down + i * e.intermediate, e.intermediate, block.weight.data());
    for (std::size_t r = 0; r < count; ++r) {
      const float* inner = block.inner.data() + r * e.intermediate;
      out[r * e.hidden + i] = bfloat16{dot(block.weight.data(), inner, e.intermediate)};
    }
  }
}

}  // namespace

void run(const expert_weights& weights, const received_tokens& rows, bfloat16* out) {
  const extents e{static_cast<std::size_t>(weights.hidden), static_cast<std::size_t>(weights.intermediate)};
  row_block block{e};
  for (int expert = 0; expert < rows.num_local_experts; ++expert) {
    const std::size_t matrix = static_cast<std::size_t>(expert) * e.hidden * e.intermediate;
    const matrices m{weights.gate + matrix, weights.up + matrix, weights.down + matrix};
    // What the device says is bounded before it is followed.
    const int offset = std::clamp(rows.row_offsets[expert], 0, rows.max_rows);
    const auto begin = static_cast<std::size_t>(offset);
    const std::size_t end =
        begin + static_cast<std::size_t>(std::clamp(rows.row_counts[expert], 0, rows.max_rows - offset));
    for (std::size_t first = begin; first < end; first += block_rows) {
      const std::size_t count = std::min(block_rows, end - first);
      for (std::size_t r = 0; r < count; ++r) widen_row(rows, first + r, block.x.data() + r * e.hidden);
      gate_and_up(m, e, count, block);
      down(m, e, count, block, out + first * e.hidden);
    }
  }
}

}  // namespace baton::expert_mlp_cpu
