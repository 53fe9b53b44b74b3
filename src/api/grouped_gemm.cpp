#include "baton/grouped_gemm.hpp"

#include "api/group_arguments.hpp"
#include "kernels/gemm/launch.hpp"
#include "runtime/world_state.hpp"

namespace baton {
namespace {

template <class Value>
void require(const grouped_problem<Value>& p) {
  require_groups(p.rows, p.stride, p.n);
  require_row("k", p.k, "a and b");
  require_result(p.rows.max_rows, p.n);
  require_group_ending(p);
  if (p.rows.max_rows == 0 || p.n == 0) return;
  require_matrix("c", p.c, matrix_alignment, "[max_rows, n]", p.rows.max_rows, p.n);
  if (p.k == 0) return;
  require_rows_of_a(p);
  require_matrix("b", p.b, matrix_alignment, "[num_ranges * n, k]", p.rows.num_ranges * p.n, p.k);
}

template <class Value>
void run(const world& world, const grouped_problem<Value>& problem, stream_ref stream) {
  require(problem);
  if (problem.rows.max_rows == 0 || problem.n == 0) return;
  gemm_kernels::run(world, operands_of_groups<Value, Value>(problem), sms_for(world, problem.rows.num_sms),
                    stream);
}

}  // namespace

void grouped_gemm(const world& world, const grouped_gemm_problem& problem, stream_ref stream) {
  run(world, problem, stream);
}
void grouped_gemm(const world& world, const fp16_grouped_gemm_problem& problem, stream_ref stream) {
  run(world, problem, stream);
}

}  // namespace baton
