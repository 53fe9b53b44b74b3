// Gated products of groups, the first half of an expert: the kernel on the CPU machine, bit for bit, and bugs planted into it.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <exception>
#include <random>
#include <vector>

#include "base/silu.hpp"
#include "kernels/gemm/instances.hpp"
#include "tests/support/gated_gemm_case.hpp"
#include "tests/support/group_gemm_runs.hpp"

namespace baton {
namespace {

using gemm_kernels::config;
using test::gated_gemm_case;
using test::listed_rows;
using test::scaled_gated_case;

constexpr float as_it_was = -1;

/// Rows of A one after the other, or where a list says.
template <config C, class Context>
void run_gated(gemm_kernels::operands<bfloat16> p, const std::vector<bfloat16>& a, const sim::options& how) {
  listed_rows<bfloat16> listed{a, {}, p.m, p.k};
  if constexpr (C.listed) listed.give_to(p);
  test::run_group_gemm<C, Context>(p, {.how = how});
}

template <config C, class Context = sim::context>
std::string wrong_gated(const gated_gemm_case& g, const sim::options& how) {
  const test::grouped_gemm_case& of = g.gate;
  const auto n = static_cast<std::size_t>(of.n);
  std::vector<bfloat16> c(of.group.size() * n, bfloat16{as_it_was});
  gemm_kernels::operands<bfloat16> p{.a = of.a.data(),
                                     .b = of.b.data(),
                                     .c = c.data(),
                                     .m = of.max_rows,
                                     .n = of.n,
                                     .k = of.k,
                                     .counts = of.counts.data(),
                                     .firsts = of.firsts.data(),
                                     .groups = static_cast<int>(of.counts.size()),
                                     .b_up = g.up.data()};
  g.end.give_to(p);
  run_gated<C, Context>(p, of.a, how);
  for (std::size_t r = 0; r < of.group.size(); ++r) {
    const std::vector<float> right =
        of.group[r] < 0 ? std::vector<float>(n, as_it_was) : g.row(static_cast<int>(r));
    for (std::size_t j = 0; j < n; ++j)
      if (c[r * n + j] != bfloat16{right[j]})
        return "c[" + std::to_string(r) + ", " + std::to_string(j) +
               "] = " + std::to_string(static_cast<float>(c[r * n + j])) + ", expected " +
               std::to_string(right[j]);
  }
  return "";
}

/// C as e4m3 with its scales; what nobody owns stays as it was.
struct e4m3_result {
  std::vector<float8_e4m3> values;  // [m, n]
  std::vector<float> scales;        // [ceil(n / 128), m]
};

template <config C, class Context>
e4m3_result gated_in_e4m3(const scaled_gated_case& g, const sim::options& how) {
  const test::scaled_gemm_case& of = g.gate;
  const auto m = static_cast<std::size_t>(of.max_rows), n = static_cast<std::size_t>(of.n);
  e4m3_result c{std::vector<float8_e4m3>(m * n, float8_e4m3{as_it_was}),
                std::vector<float>(m * fp8_scales(n), as_it_was)};
  std::vector<float> gate_scales = of.b_scales;
  for (float& v : gate_scales) v /= 16;
  gemm_kernels::operands<float8_e4m3, float8_e4m3> p{
      .a = of.a.data(),
      .b = of.b.data(),
      .c = c.values.data(),
      .m = of.max_rows,
      .n = of.n,
      .k = of.k,
      .counts = of.counts.data(),
      .firsts = of.firsts.data(),
      .groups = static_cast<int>(of.counts.size()),
      .a_scales = of.a_scales.data(),
      .b_scales = gate_scales.data(),
      .a_scale_row = static_cast<int>(of.a_scale_row()),
      .a_scale_block = static_cast<std::int64_t>(of.a_scale_block()),
      .b_up = g.up.b.data(),
      .b_up_scales = g.up.b_scales.data(),
      .c_scales = c.scales.data()};
  g.end.give_to(p);
  listed_rows<float8_e4m3> listed{of.a, of.a_scales, of.max_rows, of.k};
  if constexpr (C.listed) listed.give_to(p);
  test::run_group_gemm<C, Context>(p, {.how = how});
  return c;
}

template <config C, class Context = sim::context>
std::string wrong_gated(const scaled_gated_case& g, const sim::options& how) {
  const test::scaled_gemm_case& of = g.gate;
  const auto m = static_cast<std::size_t>(of.max_rows), n = static_cast<std::size_t>(of.n);
  const e4m3_result c = gated_in_e4m3<C, Context>(g, how);
  for (std::size_t r = 0; r < m; ++r) {
    std::vector<float> right(n, as_it_was), scales(fp8_scales(n), as_it_was);
    if (of.group[r] >= 0) {
      right = g.row(static_cast<int>(r));
      round_to_fp8(right.data(), n, scales.data());
    }
    for (std::size_t j = 0; j < n; ++j)
      if (static_cast<float>(c.values[r * n + j]) != right[j])
        return "c[" + std::to_string(r) + ", " + std::to_string(j) +
               "] = " + std::to_string(static_cast<float>(c.values[r * n + j])) + ", expected " +
               std::to_string(right[j]);
    for (std::size_t b = 0; b < scales.size(); ++b)
      if (c.scales[b * m + r] != scales[b])
        return "scale " + std::to_string(b) + " of row " + std::to_string(r) + " = " +
               std::to_string(c.scales[b * m + r]) + ", expected " + std::to_string(scales[b]);
  }
  return "";
}

/// With fewer slots than on GPUs, to be quick.
template <bool block_scaled, bool listed, bool epilogue = false>
constexpr config small_gated = [] {
  config c = gemm_kernels::gated_config<block_scaled, listed, epilogue>;
  c.stages = listed ? 3 : 2;
  return c;
}();

TEST(gated_gemm_kernel, groups_of_any_size_are_exact_and_other_rows_stay_in_every_schedule) {
  constexpr int sizes[][4] = {{0, 1, 130, 64}, {65, 0, 5, 16}};
  for (const auto& counts : sizes) {
    const gated_gemm_case g = test::gated_groups(counts, 136, 200, 3);
    for (const sim::options& how : test::product_schedules) {
      EXPECT_EQ((wrong_gated<small_gated<false, false>>(g, how)), "");
      EXPECT_EQ((wrong_gated<small_gated<false, true>>(g, how)), "");
    }
  }
}

TEST(gated_gemm_kernel, of_e4m3_leave_values_and_scales_as_rounding_has_them_in_every_schedule) {
  constexpr int sizes[][4] = {{0, 1, 130, 64}, {65, 0, 5, 16}};
  for (const auto& counts : sizes) {
    const scaled_gated_case by_row = test::scaled_gated_groups(counts, 144, 272, scale_layout::row_major, 3),
                            by_column =
                                test::scaled_gated_groups(counts, 272, 144, scale_layout::column_major);
    for (const sim::options& how : test::product_schedules) {
      EXPECT_EQ((wrong_gated<small_gated<true, false>>(by_row, how)), "");
      EXPECT_EQ((wrong_gated<small_gated<true, true>>(by_row, how)), "");
      EXPECT_EQ((wrong_gated<small_gated<true, false>>(by_column, how)), "");
    }
  }
}

TEST(gated_gemm_kernel, the_configurations_of_gpus_are_exact_too) {
  constexpr int counts[] = {40, 0, 150};
  const gated_gemm_case g = test::gated_groups(counts, 136, 328);
  EXPECT_EQ((wrong_gated<gemm_kernels::gated_config<false, false>>(g, {})), "");
  EXPECT_EQ((wrong_gated<gemm_kernels::gated_config<false, true>>(g, {})), "");
  const scaled_gated_case scaled = test::scaled_gated_groups(counts, 144, 656);
  EXPECT_EQ((wrong_gated<gemm_kernels::gated_config<true, false>>(scaled, {})), "");
  EXPECT_EQ((wrong_gated<gemm_kernels::gated_config<true, true>>(scaled, {})), "");
}

TEST(gated_gemm_kernel, without_k_all_results_are_zero) {
  constexpr int counts[] = {70, 0, 5};
  EXPECT_EQ((wrong_gated<small_gated<false, true>>(test::gated_groups(counts, 136, 0), {})), "");
  EXPECT_EQ((wrong_gated<small_gated<true, true>>(test::scaled_gated_groups(counts, 144, 0), {})), "");
}

/// Each bias alone and both, with each gate.
template <class Case>
std::vector<Case> with_all_endings(Case g) {
  std::vector<Case> made;
  const auto& of = g.gate;
  const auto gate = test::biases_of_groups(of.counts, of.n, 0),
             up = test::biases_of_groups(of.counts, of.n, 3);
  for (const gating how : {gating::silu, gating::clamped}) {
    made.push_back(g), made.back().end = {gate, up, how};
    made.push_back(g), made.back().end = {gate, {}, how};
    made.push_back(g), made.back().end = {{}, up, how};
  }
  made.push_back(g), made.back().end = {{}, {}, gating::clamped};
  return made;
}

TEST(gated_gemm_kernel, biases_of_gate_and_up_and_another_gate_come_behind_the_sums_in_every_schedule) {
  constexpr int counts[] = {0, 1, 130, 5};
  for (const gated_gemm_case& g : with_all_endings(test::gated_groups(counts, 136, 72, 3))) {
    for (const sim::options& how : test::product_schedules) {
      EXPECT_EQ((wrong_gated<small_gated<false, false, true>>(g, how)), "");
      EXPECT_EQ((wrong_gated<small_gated<false, true, true>>(g, how)), "");
    }
  }
  for (const scaled_gated_case& g :
       with_all_endings(test::scaled_gated_groups(counts, 144, 144, scale_layout::row_major, 3))) {
    for (const sim::options& how : test::product_schedules) {
      EXPECT_EQ((wrong_gated<small_gated<true, false, true>>(g, how)), "");
      EXPECT_EQ((wrong_gated<small_gated<true, true, true>>(g, how)), "");
    }
  }
}

TEST(gated_gemm_kernel, the_formula_that_both_gates_share_is_silu_times_up_bit_for_bit) {
  const gate_factors silu_factors = factors_of(gating::silu);
  std::mt19937 random{3};
  for (int i = 0; i < 100000; ++i) {
    const float g = std::bit_cast<float>(static_cast<std::uint32_t>(random())),
                u = i % 3 == 0 ? -0.0f : std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    const float found = gated(g, u, silu_factors), right = silu(g) * u;
    ASSERT_TRUE(std::bit_cast<std::uint32_t>(found) == std::bit_cast<std::uint32_t>(right) ||
                (std::isnan(found) && std::isnan(right)))
        << g << " " << u;
  }
}

TEST(gated_gemm_kernel, a_clamped_gate_is_as_its_formula_says) {
  for (float g = -30; g < 30; g += 0.37f) {
    for (float u = -12; u < 12; u += 0.53f) {
      const double limited = std::min(static_cast<double>(g), 7.0), slope = 1.702 * limited;
      const double right =
          limited / (1 + std::exp(-slope)) * (std::clamp(static_cast<double>(u), -7.0, 7.0) + 1);
      // exp has 2 units of 2^-23, the sum, quotient, addition and product a half each; so have 1.702 and its product, in the
      // exponent.
      const double relative = (4 + std::abs(slope)) * 0x1p-23;
      // u + 1 near 0 has the rounding of a number below 8.
      EXPECT_NEAR(gated(g, u, factors_of(gating::clamped)), right,
                  relative * std::abs(right) + 0x1p-22 * std::abs(limited / (1 + std::exp(-slope))))
          << g << " " << u;
    }
  }
  const gate_factors clamped = factors_of(gating::clamped);
  EXPECT_TRUE(std::isnan(gated(std::nanf(""), 1, clamped)));
  EXPECT_TRUE(std::isnan(gated(1, std::nanf(""), clamped)));
  EXPECT_EQ(gated(INFINITY, 1, clamped), gated(7, 1, clamped));
}

/// Bugs: copied rows that are told of before they are there, or without a fence; results of the wrong columns.
template <config C, class Context, class Case>
int schedules_in_which_gated_products_are_wrong(const Case& g) {
  int shown = 0;
  for (const sim::options& how : test::product_schedules) {
    try {
      shown += wrong_gated<C, Context>(g, how).empty() ? 0 : 1;
    } catch (const std::exception&) {  // the machine's own checks
      ++shown;
    }
  }
  return shown;
}

struct awaits_no_copies : sim::context {
  explicit awaits_no_copies(const sim::context& x) : sim::context{x} {}
  template <int newest>
  void await_copies() {
    sim::context::await_copies<newest + 1>();
  }
};
struct fences_no_copies : sim::context {
  explicit fences_no_copies(const sim::context& x) : sim::context{x} {}
  void fence_proxy_async() {
    if (warp() >= group_warps) sim::context::fence_proxy_async();
  }
};
struct takes_up_for_gate : sim::context {
  explicit takes_up_for_gate(const sim::context& x) : sim::context{x} {}
  template <int columns, class F>
  void fold_halves(group_accumulators<columns>& acc, F f) {
    sim::context::fold_halves(acc, [&](float gate, float up) { return f(up, gate); });
  }
};
struct sees_columns_of_others : sim::context {
  explicit sees_columns_of_others(const sim::context& x) : sim::context{x} {}
  template <int columns>
  row_values largest_of_rows(const group_accumulators<columns>& acc, int) {
    return sim::context::largest_of_rows(acc, columns / 2);
  }
};

TEST(gated_gemm_kernel, rows_told_of_early_missing_fences_and_wrong_halves_show) {
  constexpr int counts[] = {70, 30};
  const gated_gemm_case g = test::gated_groups(counts, 136, 328);
  const scaled_gated_case scaled = test::scaled_gated_groups(counts, 144, 528);
  constexpr config listed = small_gated<false, true>, scaled_listed = small_gated<true, true>;
  EXPECT_EQ((schedules_in_which_gated_products_are_wrong<listed, sim::context>(g)), 0);
  EXPECT_GT((schedules_in_which_gated_products_are_wrong<listed, awaits_no_copies>(g)), 0);
  EXPECT_GT((schedules_in_which_gated_products_are_wrong<scaled_listed, awaits_no_copies>(scaled)), 0);
  EXPECT_GT((schedules_in_which_gated_products_are_wrong<listed, fences_no_copies>(g)), 0);
  EXPECT_GT((schedules_in_which_gated_products_are_wrong<scaled_listed, fences_no_copies>(scaled)), 0);
  EXPECT_EQ((schedules_in_which_gated_products_are_wrong<listed, takes_up_for_gate>(g)), 3);
  EXPECT_EQ((schedules_in_which_gated_products_are_wrong<scaled_listed, takes_up_for_gate>(scaled)), 3);
  EXPECT_EQ((schedules_in_which_gated_products_are_wrong<scaled_listed, sees_columns_of_others>(scaled)), 3);
}

}  // namespace
}  // namespace baton
