#include "baton/grouped_gemm.hpp"

#include "api/group_arguments.hpp"
#include "kernels/gemm/launch.hpp"
#include "runtime/world_state.hpp"

namespace baton {
namespace {

template <class Value>
void require_list(const grouped_problem<Value>& p) {
  const std::int64_t least = std::int64_t{p.k} * static_cast<int>(sizeof(Value));
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

template <class Value>
void require(const grouped_problem<Value>& p) {
  require_groups(p.rows, p.stride, p.n);
  require_row("k", p.k, "a and b");
  require_result(p.rows.max_rows, p.n);
  if (p.rows.max_rows == 0 || p.n == 0) return;
  require_matrix("c", p.c, matrix_alignment, "[max_rows, n]", p.rows.max_rows, p.n);
  if (p.k == 0) return;
  if (p.a_rows == nullptr)
    require_matrix("a", p.a, matrix_alignment, "[max_rows, k]", p.rows.max_rows, p.k);
  else
    require_list(p);
  require_matrix("b", p.b, matrix_alignment, "[num_ranges * n, k]", p.rows.num_ranges * p.n, p.k);
}

template <class Value>
void run(const world& world, const grouped_problem<Value>& problem, stream_ref stream) {
  require(problem);
  if (problem.rows.max_rows == 0 || problem.n == 0) return;
  auto operands = operands_of_groups<Value, Value>(problem);
  operands.a_list = problem.a_rows;
  operands.num_a_rows = problem.num_a_rows;
  operands.a_row_bytes =
      problem.a_row_bytes != 0 ? problem.a_row_bytes : problem.k * static_cast<int>(sizeof(Value));
  gemm_kernels::run(world, operands, sms_for(world, problem.rows.num_sms), stream);
}

}  // namespace

void grouped_gemm(const world& world, const grouped_gemm_problem& problem, stream_ref stream) {
  run(world, problem, stream);
}
void grouped_gemm(const world& world, const fp16_grouped_gemm_problem& problem, stream_ref stream) {
  run(world, problem, stream);
}

}  // namespace baton
