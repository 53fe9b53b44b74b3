#pragma once
#include <cstdint>

#include "base/tile_walk.hpp"
#include "kernels/gemm/config.hpp"

namespace baton::gemm_kernels {

/// What the kernel reads and writes: passed by value as a __grid_constant__.
struct params {
  tensor_map a;       // [m, k] in boxes of block_m rows; none where k is 0
  tensor_map a_half;  // the same in boxes of group_rows, where grouped
  tensor_map b;       // [n, k], of each group, in boxes of columns / cluster rows; none where k is 0
  tensor_map c;       // [m, n] in boxes of 16 rows
  void* c_rows;       // [m, n], the same memory
  int m, n, k;
  float alpha, beta;

  // Grouped: group g has rows first to first + counts[g] - 1, of which those below m are taken.
  const std::int32_t* counts;  // [groups]
  const std::int32_t* firsts;  // [groups]; null: g * stride
  int stride, groups;
};

/// What is multiplied, as the host says it.
template <class Out>
struct operands {
  const bfloat16* a = nullptr;
  const bfloat16* b = nullptr;
  Out* c = nullptr;
  int m = 0, n = 0, k = 0;
  float alpha = 1, beta = 0;
  const std::int32_t* counts = nullptr;
  const std::int32_t* firsts = nullptr;
  int stride = 0, groups = 0;  // 0: not grouped
};

/// `make_map(tensor_layout)` is the device's.
template <config C, class Out, class MakeMap>
params params_of(const operands<Out>& p, MakeMap make_map) {
  const auto matrix = [&](const auto* at, std::int64_t rows, int columns, int box_rows) {
    const int bytes = static_cast<int>(sizeof(*at));
    return make_map(tensor_layout{at, bytes, columns, rows, std::int64_t{columns} * bytes, box_rows});
  };
  const std::int64_t b_rows = std::int64_t{C.grouped ? p.groups : 1} * p.n;
  params made{};
  if (p.k > 0) {
    made.a = matrix(p.a, p.m, p.k, block_m);
    if (C.grouped) made.a_half = matrix(p.a, p.m, p.k, group_rows);
    made.b = matrix(p.b, b_rows, p.k, C.columns / C.cluster);
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
  return made;
}

/// The tiles of all blocks of a cluster are taken at once.
template <config C>
constexpr tile_walk walk_of(int m, int n) {
  return {m, n, block_m * C.cluster, C.columns};
}

}  // namespace baton::gemm_kernels
