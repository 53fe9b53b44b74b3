#pragma once
// Verbs of one warp whose left operand is e4m3 and becomes fp16 on its way out of shared memory: the right one is fp16, sums are
// fp32. Products are done when the verb returns. Accumulators are group_accumulators<16> (exec/group_mma.hpp), 16 rows by 16
// columns, with all verbs of columns. `columns`, 8 or 16, is how many of these are wanted: others are nobody's.
//
//   multiply_add(acc, a, b, columns)      acc += A * B^T: A is 16 rows of 256 e4m3, spread_columns, B 16 rows of 256 fp16, units
//   multiply_add_turned(accs, v, w, rows, columns)
//                                         accs of 16 columns of V each: += V^T * W^T, V 64 rows of e4m3, spread_columns, of which
//                                         those outside of `rows` count as zeros, whatever they are, and W 16 rows of a tile of
//                                         fp16. Row r of accs[i] is column 16 i + turned_column(r) of V
//
// On the GPU: ldmatrix, cvt and mma.m16n8k16. Elsewhere: plain loops.
#include "exec/group_mma.hpp"

namespace baton {

/// Rows begin <= r < end.
struct row_span {
  int begin, end;
};

/// Row `row` of what multiply_add_turned makes is this one of 16 columns: of rows r and r + 8, of one lane, 2 r and 2 r + 1.
constexpr BATON_FN int turned_column(int row) {
  return row % 8 * 2 + row / 8;
}

template <class X>
concept narrow_exec_context = exec_context<X> &&
    requires(X& x, typename X::template group_accumulators<16> acc,
             typename X::template group_accumulators<16> (&accs)[4],
             spread_columns<float8_e4m3, 2048> columns, operand_tile_fp16 weights, fp16_units units,
             row_span rows) {
  x.clear(acc);
  x.multiply_add(acc, columns, units, 8);
  x.scale_columns(acc, x.template of_columns<16>(exec_detail::row_of_value{}));
  x.multiply_add_turned(accs, columns, weights, rows, 8);
};

}  // namespace baton
