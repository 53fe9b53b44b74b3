#pragma once
#include <cstdint>
#include <type_traits>

#include "base/tile_walk.hpp"
#include "baton/activation.hpp"
#include "baton/numeric.hpp"
#include "kernels/gemm/config.hpp"

namespace baton::gemm_kernels {

/// What the kernel reads and writes: passed by value as a __grid_constant__.
struct params {
  tensor_map a;       // [m, k] in boxes of block_m rows; none where k is 0
  tensor_map a_half;  // the same in boxes of group_rows, where grouped
  tensor_map
      b;  // [n, k], of each group, in boxes of b_box_rows, or [k, n] in boxes of block_k; none where k is 0
  tensor_map b_up;  // the same, where gated
  tensor_map c;     // [m, n] in boxes of 16 rows
  void* c_rows;     // [m, n], the same memory
  int m, n, k;
  float alpha, beta;

  // Grouped: group g has rows first to first + counts[g] - 1, of which those below m are taken.
  const std::int32_t* counts;  // [groups]
  const std::int32_t* firsts;  // [groups]; null: g * stride
  int stride, groups;

  // Block-scaled: block j of row r of A times a_scales[r * a_scale_row + j * a_scale_block], and of row r of B, of group g, times
  // b_scales[(g * ceil(n / 128) + r / 128) * ceil(k / 128) + j].
  const float *a_scales, *b_scales;
  int a_scale_row;
  std::int64_t a_scale_block;

  // Gated: scales of b_up; and where C is e4m3, of row r of C and its block j: c_scales[j * m + r].
  const float* b_up_scales;
  float* c_scales;

  // Listed: row r of A is a_rows + a_list[r] * a_row_bytes, and has the scales of row a_list[r], one of num_a_rows.
  const std::byte* a_rows;
  const std::int32_t* a_list;
  int a_row_bytes, num_a_rows;

  // With an epilogue: of each row of b, a float or a bias_value; null: none. Gated: of gate, and up_bias.
  const float* fp32_bias;
  const void* bias;
  activation act;
  bool b_is_rows_of_k;       // b is [k, n]
  const float* row_weights;  // of groups: [m]; null: none
  const void* up_bias;       // gated
  gating gate;
  // With an epilogue, in place of a_scales and b_scales where not null.
  const float8_e8m0 *a_exponents, *b_exponents;
};

/// What a bias of 16 bits is of.
template <class Out>
using bias_of = std::conditional_t<std::is_same_v<Out, float8_e4m3>, bfloat16, Out>;

/// What is multiplied, as the host says it.
template <class Out, class In = bfloat16>
struct operands {
  const In* a = nullptr;
  const In* b = nullptr;
  Out* c = nullptr;
  int m = 0, n = 0, k = 0;
  float alpha = 1, beta = 0;
  const std::int32_t* counts = nullptr;
  const std::int32_t* firsts = nullptr;
  int stride = 0, groups = 0;       // 0: not grouped
  const float* a_scales = nullptr;  // of e4m3
  const float* b_scales = nullptr;
  int a_scale_row = 0;
  std::int64_t a_scale_block = 0;
  const In* b_up = nullptr;  // of gated products
  const float* b_up_scales = nullptr;
  float* c_scales = nullptr;             // of e4m3
  const std::int32_t* a_list = nullptr;  // null: row r of A is its r-th
  int a_row_bytes = 0, num_a_rows = 0;   // of a list
  const bias_of<Out>* bias = nullptr;    // [n], of each group
  const float* fp32_bias = nullptr;
  activation act = activation::none;
  bool b_is_rows_of_k = false;         // b is [k, n]
  const float* row_weights = nullptr;  // [m], of groups
  const bfloat16* up_bias = nullptr;   // of gated products
  gating gate = gating::silu;
  const float8_e8m0* a_exponents = nullptr;  // of e4m3, in place of a_scales and b_scales
  const float8_e8m0* b_exponents = nullptr;

  /// Whether the sums are not all that C is, or scales are not fp32.
  constexpr bool has_ending() const {
    return alpha != 1.0f || beta != 0.0f || bias != nullptr || fp32_bias != nullptr ||
           act != activation::none || b_is_rows_of_k || row_weights != nullptr || up_bias != nullptr ||
           gate != gating::silu || a_exponents != nullptr || b_exponents != nullptr;
  }
};

/// `make_map(tensor_layout)` is the device's.
template <class Out, class In, class MakeMap>
params params_with(const config& c, int columns_of_slot, const operands<Out, In>& p, MakeMap make_map) {
  const auto matrix = [&](const auto* at, std::int64_t rows, int columns, int box_rows) {
    const int bytes = static_cast<int>(sizeof(*at));
    return make_map(tensor_layout{at, bytes, columns, rows, std::int64_t{columns} * bytes, box_rows});
  };
  const std::int64_t b_rows = std::int64_t{c.grouped ? p.groups : 1} * p.n;
  params made{};
  if (p.k > 0) {
    if (!c.listed) made.a = matrix(p.a, p.m, p.k, block_m);
    if (c.grouped && !c.listed) made.a_half = matrix(p.a, p.m, p.k, group_rows);
    made.b_is_rows_of_k = p.b_is_rows_of_k;
    made.b =
        p.b_is_rows_of_k ? matrix(p.b, p.k, p.n, columns_of_slot) : matrix(p.b, b_rows, p.k, c.b_box_rows());
    if (c.gated) made.b_up = matrix(p.b_up, b_rows, p.k, c.b_box_rows());
  }
  made.c = matrix(p.c, p.m, p.n, group_warp_rows);
  made.c_rows = p.c;
  made.m = p.m;
  made.n = p.n;
  made.k = p.k;
  made.alpha = p.alpha;
  made.beta = p.beta;
  made.counts = p.counts;
  made.firsts = p.firsts;
  made.stride = p.stride;
  made.groups = p.groups;
  made.a_scales = p.a_scales;
  made.b_scales = p.b_scales;
  made.a_scale_row = p.a_scale_row;
  made.a_scale_block = p.a_scale_block;
  made.b_up_scales = p.b_up_scales;
  made.c_scales = p.c_scales;
  made.a_rows = reinterpret_cast<const std::byte*>(p.a);
  made.a_list = p.a_list;
  made.a_row_bytes = p.a_row_bytes;
  made.num_a_rows = p.num_a_rows;
  made.fp32_bias = p.fp32_bias;
  made.bias = p.bias;
  made.act = p.act;
  made.row_weights = p.row_weights;
  made.up_bias = p.up_bias;
  made.gate = p.gate;
  made.a_exponents = p.a_exponents;
  made.b_exponents = p.b_exponents;
  return made;
}

template <config C, class Out, class In, class MakeMap>
params params_of(const operands<Out, In>& p, MakeMap make_map) {
  return params_with(C, block_k<C>, p, make_map);
}

/// The tiles of all blocks of a cluster are taken at once.
template <config C>
constexpr tile_walk walk_of(int m, int n) {
  return {m, n, block_m * C.cluster, C.result_columns()};
}

}  // namespace baton::gemm_kernels
