#include "baton/scaled_gemm.hpp"

#include "api/group_arguments.hpp"
#include "baton/weight_format.hpp"
#include "kernels/gemm/launch.hpp"
#include "runtime/world_state.hpp"

namespace baton {
namespace {

using scaled_operands = gemm_kernels::operands<bfloat16, float8_e4m3>;

/// `c_sizes` and so on name the extents of c, a and b.
void require_scaled(const scaled_operands& p, scale_layout layout, const char* c_sizes, const char* a_sizes,
                    const char* b_sizes) {
  constexpr int row_multiple = 16;
  require_row("k", p.k, "a and b", row_multiple);
  require_result(p.m, p.n);
  if (layout != scale_layout::row_major && layout != scale_layout::column_major)
    throw invalid_argument{fmt::format("a_layout: {}, expected row_major or column_major", name(layout))};
  if (p.m == 0 || p.n == 0) return;
  require_matrix("c", p.c, matrix_alignment, c_sizes, p.m, p.n);
  if (p.k == 0) return;
  const int groups = larger(p.groups, 1);
  require_matrix("a", p.a, matrix_alignment, a_sizes, p.m, p.k);
  require_matrix("b", p.b, matrix_alignment, b_sizes, groups * p.n, p.k);
  const int blocks = weight_scales(p.k);
  if (p.a_exponents == nullptr)
    require_matrix("a_scales", p.a_scales, alignof(float), "[rows, ceil(k / 128)]", p.m, blocks);
  if (p.b_exponents == nullptr)
    require_matrix("b_scales", p.b_scales, alignof(float), "[groups * ceil(n / 128), ceil(k / 128)]",
                   groups * weight_scales(p.n), blocks);
}

/// Scales of one type each.
template <class Problem>
void set_scales(scaled_operands& to, const Problem& p) {
  if (p.a_scales != nullptr && p.e8m0_a_scales != nullptr)
    throw invalid_argument{"a_scales and e8m0_a_scales: both are given, expected one of them"};
  if (p.b_scales != nullptr && p.e8m0_b_scales != nullptr)
    throw invalid_argument{"b_scales and e8m0_b_scales: both are given, expected one of them"};
  to.a_scales = p.a_scales;
  to.b_scales = p.b_scales;
  to.a_exponents = p.e8m0_a_scales;
  to.b_exponents = p.e8m0_b_scales;
}

/// From one scale of a to the next.
void set_scale_steps(scaled_operands& p, scale_layout layout) {
  const bool by_row = layout == scale_layout::row_major;
  p.a_scale_row = by_row ? weight_scales(p.k) : 1;
  p.a_scale_block = by_row ? 1 : p.m;
}

}  // namespace

void scaled_gemm(const world& world, const scaled_gemm_problem& p, const gemm_config& config,
                 stream_ref stream) {
  require_extent("m", p.m);
  require_row("n", p.n, "c, and the number of rows of b,");
  require_config(config, gemm_tiles::medium);
  if (config.tiles == gemm_tiles::wide || config.tiles == gemm_tiles::narrow)
    throw invalid_argument{
        fmt::format("tiles: {}, expected automatic, paired or medium with e4m3", name(config.tiles))};
  scaled_operands operands{.a = p.a,
                           .b = p.b,
                           .c = p.c,
                           .m = p.m,
                           .n = p.n,
                           .k = p.k,
                           .bias = p.bias,
                           .fp32_bias = p.fp32_bias,
                           .act = p.act};
  set_scales(operands, p);
  require_scaled(operands, p.a_layout, "[m, n]", "[m, k]", "[n, k]");
  require_ending(p.act, p.bias, p.fp32_bias);
  if (operands.m == 0 || operands.n == 0) return;
  require_biases(p.bias, p.fp32_bias, "[1, n]", 1, p.n);
  set_scale_steps(operands, p.a_layout);
  gemm_kernels::run(world, operands, {config.tiles, sms_for(world, config.num_sms), config.splits}, stream);
}

void scaled_grouped_gemm(const world& world, const scaled_grouped_gemm_problem& p, stream_ref stream) {
  require_groups(p.rows, p.stride, p.n);
  scaled_operands operands = operands_of_groups<bfloat16, float8_e4m3>(p);
  set_scales(operands, p);
  require_scaled(operands, p.a_layout, "[max_rows, n]", "[max_rows, k]", "[num_ranges * n, k]");
  require_group_ending(p);
  if (operands.m == 0 || operands.n == 0) return;
  set_scale_steps(operands, p.a_layout);
  if (p.a_rows != nullptr && p.k > 0) {
    if (p.a_layout != scale_layout::row_major)
      throw invalid_argument{fmt::format("a_layout: {}, expected row_major with a_rows", name(p.a_layout))};
    require_rows_of_a(p);
    const int scale_bytes = p.e8m0_a_scales == nullptr ? static_cast<int>(sizeof(float)) : 1;
    if (p.a_row_bytes != 0) operands.a_scale_row = p.a_row_bytes / scale_bytes;
  }
  gemm_kernels::run(world, operands, sms_for(world, p.rows.num_sms), stream);
}

}  // namespace baton
