#pragma once
// What products of groups of rows ask of their arguments.
#include "api/matrix_arguments.hpp"
#include "baton/quantise.hpp"
#include "kernels/gemm/config.hpp"
#include "kernels/gemm/params.hpp"

namespace baton {

/// Groups of rows, each with n rows of b.
inline void require_groups(const row_selection& rows, int stride, int n) {
  using gemm_kernels::most_groups;
  require_extent("rows.max_rows", rows.max_rows);
  if (rows.num_ranges < 1 || rows.num_ranges > most_groups)
    throw invalid_argument{
        fmt::format("rows.num_ranges: {} is outside [1, {}]", rows.num_ranges, most_groups)};
  if (rows.counts == nullptr)
    throw invalid_argument{"rows.counts: null, expected the rows of each group in device memory"};
  if (rows.firsts == nullptr && (stride < 0 || std::int64_t{stride} * rows.num_ranges > largest_extent))
    throw invalid_argument{
        fmt::format("stride: {} rows for each of {} groups, expected 0 or more, and {} in all at most",
                    stride, rows.num_ranges, largest_extent)};
  if (rows.num_sms < 0)
    throw invalid_argument{fmt::format("rows.num_sms: {} must not be negative", rows.num_sms)};
  require_row("n", n, "c, and the number of rows of each b,");
  if (std::int64_t{n} * rows.num_ranges > largest_extent)
    throw invalid_argument{fmt::format("n: {} rows of b for each of {} groups are more than {}", n,
                                       rows.num_ranges, largest_extent)};
}

/// That a has the rows that are asked for, one after the other or where a list says.
template <class Problem>
void require_rows_of_a(const Problem& p) {
  if (p.a_rows == nullptr)
    return require_matrix("a", p.a, matrix_alignment, "[max_rows, k]", p.rows.max_rows, p.k);
  const std::int64_t least = std::int64_t{p.k} * static_cast<int>(sizeof(*p.a));
  if (p.num_a_rows < 1 || p.num_a_rows > largest_extent)
    throw invalid_argument{fmt::format("num_a_rows: {} is outside [1, {}]", p.num_a_rows, largest_extent)};
  if (p.a_row_bytes != 0 &&
      (p.a_row_bytes < least || p.a_row_bytes % static_cast<int>(matrix_alignment) != 0))
    throw invalid_argument{
        fmt::format("a_row_bytes: {}, expected 0 or a multiple of {} that {} values of k fit in, {} bytes",
                    p.a_row_bytes, matrix_alignment, p.k, least)};
  require_matrix("a", p.a, matrix_alignment, "[num_a_rows, k]", p.num_a_rows, p.k);
  require_matrix("a_rows", p.a_rows, alignof(std::int32_t), "[1, max_rows]", 1, p.rows.max_rows);
}

/// What a product of groups ends in.
template <class Problem>
void require_group_ending(const Problem& p) {
  require_ending(p.act, p.bias, p.fp32_bias);
  if (p.rows.max_rows == 0 || p.n == 0) return;
  require_biases(p.bias, p.fp32_bias, "[num_ranges, n]", p.rows.num_ranges, p.n);
  if (p.row_weights != nullptr)
    require_matrix("row_weights", p.row_weights, alignof(float), "[1, max_rows]", 1, p.rows.max_rows);
}

/// What kernels take of a problem of groups.
template <class Out, class In, class Problem>
gemm_kernels::operands<Out, In> operands_of_groups(const Problem& p) {
  return {.a = p.a,
          .b = p.b,
          .c = p.c,
          .m = p.rows.max_rows,
          .n = p.n,
          .k = p.k,
          .counts = p.rows.counts,
          .firsts = p.rows.firsts,
          .stride = p.stride,
          .groups = p.rows.num_ranges,
          .a_list = p.a_rows,
          .a_row_bytes = p.a_row_bytes != 0 ? p.a_row_bytes : p.k * static_cast<int>(sizeof(In)),
          .num_a_rows = p.num_a_rows,
          .bias = p.bias,
          .fp32_bias = p.fp32_bias,
          .act = p.act,
          .row_weights = p.row_weights};
}

}  // namespace baton
