// Scales of eight bits of products of e4m3 as users call them: the same results as with fp32 scales of the same values.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "baton/error.hpp"
#include "baton/scaled_gemm.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/e8m0_scales.hpp"
#include "tests/support/scaled_gemm_case.hpp"

namespace baton {
namespace {

using test::all_choices;
using test::eight_bits;
using test::exact_draws;
using test::exponents_of;
using test::scaled_gemm_case;
using test::scaled_groups;

constexpr float never_written = -1;
constexpr int group_sizes[] = {3, 0, 130, 1};

TEST(e8m0_scales, are_worth_what_fp32_scales_of_the_same_values_are_on_the_cpu) {
  const auto worlds = world::local(1, device_kind::cpu);
  for (const scale_layout layout : {scale_layout::row_major, scale_layout::column_major}) {
    const scaled_gemm_case g = scaled_groups(group_sizes, 136, 272, exact_draws(1), layout, 2);
    const auto a_scales = exponents_of(g.a_scales), b_scales = exponents_of(g.b_scales);
    for (const eight_bits& of : all_choices) {
      std::vector<bfloat16> c(g.group.size() * static_cast<std::size_t>(g.n), bfloat16{never_written});
      scaled_grouped_gemm(worlds[0], {.a = g.a.data(),
                                      .a_scales = of.a ? nullptr : g.a_scales.data(),
                                      .b = g.b.data(),
                                      .b_scales = of.b ? nullptr : g.b_scales.data(),
                                      .c = c.data(),
                                      .n = g.n,
                                      .k = g.k,
                                      .rows = {g.max_rows, g.counts.data(), g.firsts.data(), 4},
                                      .a_layout = layout,
                                      .e8m0_a_scales = of.a ? a_scales.data() : nullptr,
                                      .e8m0_b_scales = of.b ? b_scales.data() : nullptr});
      worlds[0].synchronize();
      EXPECT_EQ(test::wrong_value(g, c, never_written), "") << of.a << of.b;
    }
  }
}

TEST(e8m0_scales, of_listed_rows_lie_a_rows_bytes_apart_on_the_cpu) {
  constexpr int counts[] = {2, 2}, row_bytes = 160;
  scaled_gemm_case g = scaled_groups(counts, 16, 144, exact_draws(2));
  std::vector<std::byte> rows(std::size_t{4} * row_bytes + 16);
  auto* const first =
      reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(rows.data()) + 15) / 16 * 16);
  const auto scales = exponents_of(g.a_scales);
  constexpr std::int32_t list[] = {3, 2, 1, 0};
  for (std::size_t r = 0; r < 4; ++r) {
    std::memcpy(first + (3 - r) * row_bytes, &g.a[r * 144], 144);
    std::memcpy(first + (3 - r) * row_bytes + 144, &scales[r * 2], 2);
  }
  const auto worlds = world::local(1, device_kind::cpu);
  std::vector<bfloat16> c(std::size_t{4} * 16);
  scaled_grouped_gemm(worlds[0], {.a = reinterpret_cast<const float8_e4m3*>(first),
                                  .b = g.b.data(),
                                  .b_scales = g.b_scales.data(),
                                  .c = c.data(),
                                  .n = 16,
                                  .k = 144,
                                  .rows = {4, g.counts.data(), g.firsts.data(), 2},
                                  .a_rows = list,
                                  .num_a_rows = 4,
                                  .a_row_bytes = row_bytes,
                                  .e8m0_a_scales = reinterpret_cast<const float8_e8m0*>(first + 144)});
  worlds[0].synchronize();
  EXPECT_EQ(test::wrong_value(g, c, never_written), "");
}

TEST(e8m0_scales, both_kinds_for_one_operand_are_refused) {
  const auto worlds = world::local(1, device_kind::cpu);
  alignas(16) float8_e4m3 values[256]{};
  alignas(16) bfloat16 c[64]{};
  const float scales[4]{};
  const float8_e8m0 exponents[4]{};
  const auto message = [&](auto change) {
    scaled_gemm_problem p{values, scales, values, scales, c, 8, 8, 16};
    change(p);
    return test::message_of<invalid_argument>([&] { scaled_gemm(worlds[0], p); });
  };
  using test::says;
  EXPECT_TRUE(
      says(message([&](auto& p) { p.e8m0_a_scales = exponents; }), "a_scales and e8m0_a_scales: both"));
  EXPECT_TRUE(
      says(message([&](auto& p) { p.e8m0_b_scales = exponents; }), "b_scales and e8m0_b_scales: both"));
  EXPECT_TRUE(says(message([&](auto& p) { p.a_scales = nullptr; }), "a_scales: null"));
  EXPECT_TRUE(
      says(message([&](auto& p) { p.a_scales = nullptr, p.e8m0_a_scales = exponents, p.b_scales = nullptr; }),
           "b_scales: null"));
}

}  // namespace
}  // namespace baton
