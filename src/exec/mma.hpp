#pragma once
// Matrix verbs of the seam: one warp multiplies tiles of bf16 in shared memory into fp32 accumulators. A context that
// has them satisfies mma_exec_context.
//
//   accumulators<rows, columns>        the warp's part of C; multiples of 16
//   clear(acc)                         acc = 0
//   multiply_add(acc, a, b)            acc += A * B^T: A is rows x 64, B columns x 64, both operand_tiles (exec/tile.hpp)
//   each_pair(acc, f)                  f(row, column, v0, v1) on the lane that holds them: acc at (row, column) and
//                                      (row, column + 1), every even column once
//
// On the GPU: ldmatrix and mma.m16n8k16. Elsewhere: plain loops, k ascending.
#include "exec/exec.hpp"
#include "exec/tile.hpp"

namespace baton {

namespace exec_detail {
struct any_pair {
  constexpr void operator()(int, int, float, float) const {}
};
}  // namespace exec_detail

template <class X>
concept mma_exec_context = exec_context<X> && requires(X& x, typename X::template accumulators<16, 32> acc,
                                                       operand_tile tile, exec_detail::any_pair f) {
  x.clear(acc);
  x.multiply_add(acc, tile, tile);
  x.each_pair(acc, f);
};

}  // namespace baton
