#include "kernels/expert_mlp/cpu.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/activation.hpp"
#include "base/dot.hpp"
#include "base/fp8_rows.hpp"
#include "base/stored_rows.hpp"

namespace baton::expert_mlp_cpu {
namespace {

constexpr std::size_t block_rows = 16;  // rows that share one conversion of each weight row

struct extents {
  std::size_t hidden, intermediate;
};

/// With the bias of a column, if there are any.
float with_bias(float sum, const bfloat16* biases, std::size_t column) {
  return biases == nullptr ? sum : sum + static_cast<float>(biases[column]);
}
/// What leaves: with the bias of a column, times the weight of a row.
bfloat16 ended(float sum, const expert_weights& w, std::size_t column, const float* row_weight) {
  const float value = with_bias(sum, w.down_bias, column);
  return bfloat16{row_weight == nullptr ? value : value * *row_weight};
}

/// Rows in flight and rows of weights, as fp32.
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

void round_to_bf16(float* values, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>(bfloat16{values[i]});
}

/// Products of bf16 rows with bf16 weights: plain sums.
class bf16_experts {
 public:
  bf16_experts(const expert_weights& w, extents e) : w_{w}, e_{e}, block_{e} {}

  /// Rows first .. first + count - 1 of `rows` become the block's.
  void load(const received_tokens& rows, std::size_t first, std::size_t count) {
    for (std::size_t r = 0; r < count; ++r) widen_row(rows, first + r, block_.x.data() + r * e_.hidden);
    if (rows.format != token_format::bf16) round_to_bf16(block_.x.data(), count * e_.hidden);
  }

  /// inner = silu(gate x) . (up x), rounded
  void gate_and_up(std::size_t expert, std::size_t count) {
    for (std::size_t j = 0; j < e_.intermediate; ++j) {
      const std::size_t bias = expert * e_.intermediate + j, row = bias * e_.hidden;
      widen(static_cast<const bfloat16*>(w_.gate) + row, e_.hidden, block_.weight.data());
      widen(static_cast<const bfloat16*>(w_.up) + row, e_.hidden, block_.second_weight.data());
      for (std::size_t r = 0; r < count; ++r) {
        const float* x = block_.x.data() + r * e_.hidden;
        const float gate = with_bias(dot(block_.weight.data(), x, e_.hidden), w_.gate_bias, bias),
                    up = with_bias(dot(block_.second_weight.data(), x, e_.hidden), w_.up_bias, bias);
        block_.inner[r * e_.intermediate + j] = gated(gate, up, factors_of(w_.gated_by));
      }
    }
    round_to_bf16(block_.inner.data(), count * e_.intermediate);
  }

  /// out = (down inner + bias) times the rows' weights, rounded once
  void down(std::size_t expert, std::size_t count, const float* row_weights, bfloat16* out) {
    for (std::size_t i = 0; i < e_.hidden; ++i) {
      widen(static_cast<const bfloat16*>(w_.down) + (expert * e_.hidden + i) * e_.intermediate,
            e_.intermediate, block_.weight.data());
      for (std::size_t r = 0; r < count; ++r) {
        const float* inner = block_.inner.data() + r * e_.intermediate;
        out[r * e_.hidden + i] =
            ended(dot(block_.weight.data(), inner, e_.intermediate), w_, expert * e_.hidden + i,
                  row_weights == nullptr ? nullptr : row_weights + r);
      }
    }
  }

 private:
  const expert_weights& w_;
  extents e_;
  row_block block_;
};

/// Products in which both sides are e4m3, and the scales of both are applied to the sums of 128 of them.
class fp8_experts {
 public:
  fp8_experts(const expert_weights& w, extents e)
      : w_{w},
        e_{e},
        block_{e},
        x_scales_(block_rows * fp8_scales(e.hidden)),
        inner_scales_(block_rows * fp8_scales(e.intermediate)) {}

  void load(const received_tokens& rows, std::size_t first, std::size_t count) {
    for (std::size_t r = 0; r < count; ++r)
      fp8_row(rows, first + r, block_.x.data() + r * e_.hidden, x_scales_.data() + r * fp8_scales(e_.hidden));
  }

  /// inner = silu(gate x) . (up x), rounded to e4m3
  void gate_and_up(std::size_t expert, std::size_t count) {
    const std::size_t scales = fp8_scales(e_.hidden);
    for (std::size_t j = 0; j < e_.intermediate; ++j) {
      const std::size_t bias = expert * e_.intermediate + j, row = bias * e_.hidden;
      const std::size_t scale =
          (expert * fp8_scales(e_.intermediate) + j / weight_block) * scales;  // of the row's first block
      widen(static_cast<const float8_e4m3*>(w_.gate) + row, e_.hidden, block_.weight.data());
      widen(static_cast<const float8_e4m3*>(w_.up) + row, e_.hidden, block_.second_weight.data());
      for (std::size_t r = 0; r < count; ++r) {
        const auto product = [&](const std::vector<float>& weight, const float* weight_scales) {
          return scaled_dot(block_.x.data() + r * e_.hidden, x_scales_.data() + r * scales, weight.data(),
                            weight_scales, e_.hidden);
        };
        const float gate = with_bias(product(block_.weight, w_.gate_scales + scale), w_.gate_bias, bias),
                    up = with_bias(product(block_.second_weight, w_.up_scales + scale), w_.up_bias, bias);
        block_.inner[r * e_.intermediate + j] = gated(gate, up, factors_of(w_.gated_by));
      }
    }
    for (std::size_t r = 0; r < count; ++r)
      round_to_fp8(block_.inner.data() + r * e_.intermediate, e_.intermediate,
                   inner_scales_.data() + r * fp8_scales(e_.intermediate));
  }

  void down(std::size_t expert, std::size_t count, const float* row_weights, bfloat16* out) {
    const std::size_t scales = fp8_scales(e_.intermediate);
    for (std::size_t i = 0; i < e_.hidden; ++i) {
      widen(static_cast<const float8_e4m3*>(w_.down) + (expert * e_.hidden + i) * e_.intermediate,
            e_.intermediate, block_.weight.data());
      const float* const of_row =
          w_.down_scales + (expert * fp8_scales(e_.hidden) + i / weight_block) * scales;
      for (std::size_t r = 0; r < count; ++r)
        out[r * e_.hidden + i] =
            ended(scaled_dot(block_.inner.data() + r * e_.intermediate, inner_scales_.data() + r * scales,
                             block_.weight.data(), of_row, e_.intermediate),
                  w_, expert * e_.hidden + i, row_weights == nullptr ? nullptr : row_weights + r);
    }
  }

 private:
  const expert_weights& w_;
  extents e_;
  row_block block_;  // values before their scales
  std::vector<float> x_scales_, inner_scales_;
};

template <class Experts>
void run_as(const expert_weights& weights, const received_tokens& rows, bfloat16* out) {
  const extents e{static_cast<std::size_t>(weights.hidden), static_cast<std::size_t>(weights.intermediate)};
  Experts experts{weights, e};
  for (int expert = 0; expert < rows.num_local_experts; ++expert) {
    // What the device says is bounded before it is followed.
    const int offset = std::clamp(rows.row_offsets[expert], 0, rows.max_rows);
    const auto begin = static_cast<std::size_t>(offset);
    const std::size_t end =
        begin + static_cast<std::size_t>(std::clamp(rows.row_counts[expert], 0, rows.max_rows - offset));
    for (std::size_t first = begin; first < end; first += block_rows) {
      const std::size_t count = std::min(block_rows, end - first);
      experts.load(rows, first, count);
      experts.gate_and_up(static_cast<std::size_t>(expert), count);
      experts.down(static_cast<std::size_t>(expert), count,
                   rows.row_weights == nullptr ? nullptr : rows.row_weights + first, out + first * e.hidden);
    }
  }
}

}  // namespace

void run(const expert_weights& weights, const received_tokens& rows, bfloat16* out) {
  weights.format == weight_format::bf16 ? run_as<bf16_experts>(weights, rows, out)
                                        : run_as<fp8_experts>(weights, rows, out);
}

}  // namespace baton::expert_mlp_cpu
