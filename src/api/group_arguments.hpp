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
          .groups = p.rows.num_ranges};
}

}  // namespace baton
