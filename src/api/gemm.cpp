#include "baton/gemm.hpp"

#include <fmt/format.h>

#include "api/matrix_arguments.hpp"
#include "base/math.hpp"
#include "baton/error.hpp"
#include "kernels/gemm/launch.hpp"
#include "runtime/world_state.hpp"

namespace baton {
namespace {

template <class Out, class In>
void require(const gemm_problem<Out, In>& p, const gemm_config& c) {
  require_extent("m", p.m);
  require_row("n", p.n, "c, and the number of rows of b,");
  require_row("k", p.k, "a and b");
  require_result(p.m, p.n);
  require_config(c);
  require_ending(p.act, p.bias, p.fp32_bias);
  const bool k_by_n = p.b_layout == gemm_b_layout::k_by_n;
  if (!k_by_n && p.b_layout != gemm_b_layout::n_by_k)
    throw invalid_argument{fmt::format("b_layout: {} is no gemm_b_layout", static_cast<int>(p.b_layout))};
  if (p.m == 0 || p.n == 0) return;
  require_matrix("c", p.c, matrix_alignment, "[m, n]", p.m, p.n);
  require_biases(p.bias, p.fp32_bias, "[1, n]", 1, p.n);
  if (p.k == 0) return;
  require_matrix("a", p.a, matrix_alignment, "[m, k]", p.m, p.k);
  if (k_by_n)
    require_matrix("b", p.b, matrix_alignment, "[k, n]", p.k, p.n);
  else
    require_matrix("b", p.b, matrix_alignment, "[n, k]", p.n, p.k);
}

template <class Out, class In>
void run(const world& world, gemm_problem<Out, In> problem, gemm_config config, stream_ref stream) {
  require(problem, config);
  if (problem.m == 0 || problem.n == 0) return;
  if (problem.k == 0) problem.alpha = 1;  // it multiplies nothing, also where it is no number
  config.num_sms = sms_for(world, config.num_sms);
  gemm_kernels::run(world, problem, config, stream);
}

}  // namespace

void gemm(const world& world, const gemm_problem<bfloat16>& problem, const gemm_config& config,
          stream_ref stream) {
  run(world, problem, config, stream);
}
void gemm(const world& world, const gemm_problem<float>& problem, const gemm_config& config,
          stream_ref stream) {
  run(world, problem, config, stream);
}
void gemm(const world& world, const gemm_problem<float16, float16>& problem, const gemm_config& config,
          stream_ref stream) {
  run(world, problem, config, stream);
}
void gemm(const world& world, const gemm_problem<float, float16>& problem, const gemm_config& config,
          stream_ref stream) {
  run(world, problem, config, stream);
}

}  // namespace baton
