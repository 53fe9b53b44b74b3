#pragma once
#include <cstdint>

#include "baton/gemm.hpp"
#include "baton/quantise.hpp"

namespace baton {

/// `Value` is bfloat16 or float16.
template <class Value>
struct grouped_problem {
  const Value* a = nullptr;  // [rows.max_rows, k]
  const Value* b = nullptr;  // [rows.num_ranges, n, k]
  Value* c = nullptr;        // [rows.max_rows, n]
  int n = 0, k = 0;
  row_selection rows{};  // of each group; see rows_of(received_tokens)
  int stride = 0;        // rows.firsts is null: the first row of group g is g * stride
  /// Rows of a that lie where a list says, as those of tokens that several groups read: received_tokens::token_rows. Null: row r
  /// of c is made of row r of a.
  const std::int32_t* a_rows = nullptr;  // [rows.max_rows]: row r of c is made of this row of a
  int num_a_rows = 0;                    // of a, with a_rows
  int a_row_bytes = 0;  // with a_rows, from a row of a to the next: a multiple of 16; 0: the k values of one
  const Value* bias = nullptr;       // [rows.num_ranges, n], or
  const float* fp32_bias = nullptr;  // [rows.num_ranges, n]; not both
  activation act = activation::none;
  const float* row_weights = nullptr;  // [rows.max_rows]
};
using grouped_gemm_problem = grouped_problem<bfloat16>;
using fp16_grouped_gemm_problem = grouped_problem<float16>;

/// Each group of rows by a matrix of its own: `c[r, j] = row_weights[r] * act((sum over l of a[r, l] * b[g, j, l]) + bias[g, j])`
/// for the rows r of each group g, on this rank's device. What is not given is left out.
///
/// | argument            | shape              | type            | layout, alignment                                           |
/// |---------------------|--------------------|-----------------|-------------------------------------------------------------|
/// | `a`                 | [max_rows, k]      | bf16 or fp16    | contiguous, 16-byte aligned                                 |
/// | `b`                 | [num_ranges, n, k] | that of a       | contiguous, 16-byte aligned                                 |
/// | `c`                 | [max_rows, n]      | that of a       | contiguous, 16-byte aligned; rows of no group stay          |
/// | `rows.counts`       | [num_ranges]       | int32           | rows of each group, 0 and up: read on the device as it runs |
/// | `rows.firsts`       | [num_ranges]       | int32           | the first row of each group, any; or null, with `stride`    |
/// | `a_rows`            | [max_rows]         | int32           | where rows of a lie, read on the device; a: [num_a_rows, k] |
/// | `bias`, `fp32_bias` | [num_ranges, n]    | that of c, fp32 | 16-byte aligned; one of them, or none                       |
/// | `row_weights`       | [max_rows]         | fp32            | of each row of c, wherever its row of a lies; or null       |
///
/// Groups do not overlap and are of any sizes, empty ones too; nothing has to be aligned or padded. What of a group lies
/// outside of max_rows is left out, whatever the counts are, and a row of the list that is none of a is the first or last
/// one. n and k are multiples of 8, from 0; max_rows, n, k and num_ranges * n to 2^28, num_ranges from 1 to 512.
///
/// Rounding: as of gemm, with alpha 1 and beta 0; a weight multiplies with one rounding more in fp32; then rounded once to the
/// type of c. A weight of 0 multiplies, too: what is infinite or no number stays seen. What a bias or a weight of a group without
/// rows or of a row of nobody is, reaches nothing. Deterministic: the same bits on however many SMs, and wherever in a group a
/// row lies. Order: on `stream`; capturable in a CUDA graph, replays read the counts anew; no host synchronisation, no
/// allocation. Waits inside are bounded by the world's deadline.
///
/// Cost: 2 n k flops a row; of each group that has rows b is read once, mostly. Rows of a list are not copied first: warps fetch
/// them in place of the copy engine. A bias, an activation or weights cost a little at each tile's end. On the CPU it is plain
/// loops.
/// @throws invalid_argument  an argument is not as above: names it, the value and what is expected; nothing is enqueued
/// @throws cuda_error        the launch failed
void grouped_gemm(const world& world, const grouped_gemm_problem& problem, stream_ref stream = {});
void grouped_gemm(const world& world, const fp16_grouped_gemm_problem& problem, stream_ref stream = {});

}  // namespace baton
