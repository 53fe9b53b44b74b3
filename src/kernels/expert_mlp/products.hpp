#pragma once
// The two products of groups that experts are on CUDA, as kernels/gemm takes them.
#include <cstdint>

#include "baton/expert_mlp.hpp"
#include "kernels/gemm/params.hpp"

namespace baton::expert_mlp_kernels {

/// So many experts from `first` on, as a kernel takes them at a time.
struct some_experts {
  int first, count;

  template <class T>
  const T* of(const void* matrices, int rows, int columns) const {
    return static_cast<const T*>(matrices) + std::int64_t{first} * rows * columns;
  }
  const bfloat16* biases(const bfloat16* of_all, int columns) const {
    return of_all == nullptr ? nullptr : of_all + std::int64_t{first} * columns;
  }
};

/// What both products have in common.
template <class Operands>
Operands group_operands(const received_tokens& rows, const some_experts& some) {
  return {.m = rows.max_rows,
          .counts = rows.row_counts + some.first,
          .firsts = rows.row_offsets + some.first,
          .groups = some.count};
}

/// inner = silu(gate * x + gate_bias) . (up * x + up_bias), or another gate; `Value` is what is multiplied, and what comes out.
template <class Value>
gemm_kernels::operands<Value, Value> gate_and_up(const expert_weights& w, const received_tokens& rows,
                                                 const some_experts& some, Value* inner,
                                                 float* inner_scales) {
  auto p = group_operands<gemm_kernels::operands<Value, Value>>(rows, some);
  const int n = w.intermediate, k = w.hidden;
  p.a = static_cast<const Value*>(rows.tokens);
  p.b = some.of<Value>(w.gate, n, k);
  p.b_up = some.of<Value>(w.up, n, k);
  p.c = inner;
  p.n = n;
  p.k = k;
  p.bias = some.biases(w.gate_bias, n);
  p.up_bias = some.biases(w.up_bias, n);
  p.gate = w.gated_by;
  if (rows.token_rows != nullptr) {
    p.a_list = rows.token_rows;
    p.a_row_bytes = rows.row_bytes;
    p.num_a_rows = rows.max_token_rows;
  }
  if (rows.scales == nullptr) return p;
  const bool by_column = rows.scales_layout == scale_layout::column_major;
  p.a_scales = static_cast<const float*>(rows.scales);
  p.a_scale_block = by_column ? rows.max_rows : 1;
  p.a_scale_row = by_column                    ? 1
                  : rows.token_rows != nullptr ? rows.row_bytes / static_cast<int>(sizeof(float))
                                               : weight_scales(k);
  p.b_scales = some.of<float>(w.gate_scales, weight_scales(n), weight_scales(k));
  p.b_up_scales = some.of<float>(w.up_scales, weight_scales(n), weight_scales(k));
  p.c_scales = inner_scales;
  return p;
}

/// out = (down * inner + down_bias) times the rows' weights
template <class Value>
gemm_kernels::operands<bfloat16, Value> down(const expert_weights& w, const received_tokens& rows,
                                             const some_experts& some, const Value* inner,
                                             const float* inner_scales, bfloat16* out) {
  auto p = group_operands<gemm_kernels::operands<bfloat16, Value>>(rows, some);
  p.a = inner;
  p.b = some.of<Value>(w.down, w.hidden, w.intermediate);
  p.c = out;
  p.n = w.hidden;
  p.k = w.intermediate;
  p.bias = some.biases(w.down_bias, w.hidden);
  p.row_weights = rows.row_weights;
  if (w.format == weight_format::bf16) return p;
  p.a_scales = inner_scales;
  p.a_scale_row = 1;
  p.a_scale_block = rows.max_rows;
  p.b_scales = some.of<float>(w.down_scales, weight_scales(w.hidden), weight_scales(w.intermediate));
  return p;
}

}  // namespace baton::expert_mlp_kernels
