#include "baton/grouped_gemm.hpp"

#include <fmt/format.h>

#include "api/matrix_arguments.hpp"
#include "baton/error.hpp"
#include "kernels/gemm/config.hpp"
#include "kernels/gemm/launch.hpp"
#include "runtime/world_state.hpp"

namespace baton {
namespace {

using gemm_kernels::most_groups;

void require_rows(const row_selection& rows, int stride) {
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
}

void require(const grouped_gemm_problem& p) {
  require_rows(p.rows, p.stride);
  require_row("n", p.n, "c, and the number of rows of each b,");
  require_row("k", p.k, "a and b");
  require_result(p.rows.max_rows, p.n);
  if (std::int64_t{p.n} * p.rows.num_ranges > largest_extent)
    throw invalid_argument{fmt::format("n: {} rows of b for each of {} groups are more than {}", p.n,
                                       p.rows.num_ranges, largest_extent)};
  if (p.rows.max_rows == 0 || p.n == 0) return;
  require_matrix("c", p.c, matrix_alignment, "[max_rows, n]", p.rows.max_rows, p.n);
  if (p.k == 0) return;
  require_matrix("a", p.a, matrix_alignment, "[max_rows, k]", p.rows.max_rows, p.k);
  require_matrix("b", p.b, matrix_alignment, "[num_ranges * n, k]", p.rows.num_ranges * p.n, p.k);
}

}  // namespace

void grouped_gemm(const world& world, const grouped_gemm_problem& problem, stream_ref stream) {
  require(problem);
  const row_selection& rows = problem.rows;
  if (rows.max_rows == 0 || problem.n == 0) return;
  const int sms = rows.num_sms == 0 ? sms_of(world) : smaller(sms_of(world), rows.num_sms);
  gemm_kernels::run(world,
                    {.a = problem.a,
                     .b = problem.b,
                     .c = problem.c,
                     .m = rows.max_rows,
                     .n = problem.n,
                     .k = problem.k,
                     .counts = rows.counts,
                     .firsts = rows.firsts,
                     .stride = problem.stride,
                     .groups = rows.num_ranges},
                    sms, stream);
}

}  // namespace baton
