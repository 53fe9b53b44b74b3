#pragma once
#include "base/tile_walk.hpp"
#include "baton/gemm.hpp"
#include "kernels/gemm/config.hpp"

namespace baton::gemm_kernels {

/// What the kernel reads and writes: passed by value as a __grid_constant__.
struct params {
  tensor_map a;          // [m, k] in boxes of block_m rows; none where k is 0
  tensor_map b;          // [n, k] in boxes of columns / cluster rows; none where k is 0
  tensor_map c;          // [m, n] in boxes of 16 rows
  const void* c_before;  // [m, n], the same memory: what beta is for
  int m, n, k;
  float alpha, beta;
};

/// `make_map(tensor_layout)` is the device's.
template <config C, class Out, class MakeMap>
params params_of(const gemm_problem<Out>& p, MakeMap make_map) {
  const auto matrix = [&](const auto* at, int rows, int columns, int box_rows) {
    const int bytes = static_cast<int>(sizeof(*at));
    return make_map(tensor_layout{at, bytes, columns, rows, std::int64_t{columns} * bytes, box_rows});
  };
  params made{};
  if (p.k > 0) {
    made.a = matrix(p.a, p.m, p.k, block_m);
    made.b = matrix(p.b, p.n, p.k, C.columns / C.cluster);
  }
  made.c = matrix(p.c, p.m, p.n, group_warp_rows);
  made.c_before = p.c;
  made.m = p.m;
  made.n = p.n;
  made.k = p.k;
  made.alpha = p.alpha;
  made.beta = p.beta;
  return made;
}

/// The tiles of all blocks of a cluster are taken at once.
template <config C>
constexpr tile_walk walk_of(int m, int n) {
  return {m, n, block_m * C.cluster, C.columns};
}

}  // namespace baton::gemm_kernels
