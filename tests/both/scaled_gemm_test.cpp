// Products of e4m3 with scales as users call them on the CPU, and which tiles they take.
#include "baton/scaled_gemm.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "baton/error.hpp"
#include "kernels/gemm/tile_choice.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/listed_rows.hpp"
#include "tests/support/scaled_gemm_case.hpp"

namespace baton {
namespace {

using gemm_kernels::config;
using test::exact_draws;
using test::random_draws;
using test::scaled_gemm_case;
using test::scaled_groups;

constexpr float left_alone = -1;
/// fp32 sums of k up to 300 terms, and the product of two scales: each rounding is at most 2^-24 of the terms' magnitudes.
constexpr double fp32_sums = 304 * 0x1p-24;

/// With the rows of a one after the other, or where a list says.
std::vector<bfloat16> called_with_scales(const scaled_gemm_case& g, bool is_listed = false) {
  const auto worlds = world::local(1, device_kind::cpu);
  std::vector<bfloat16> c(g.group.size() * static_cast<std::size_t>(g.n), bfloat16{left_alone});
  scaled_grouped_gemm_problem p{.a = g.a.data(),
                                .a_scales = g.a_scales.data(),
                                .b = g.b.data(),
                                .b_scales = g.b_scales.data(),
                                .c = c.data(),
                                .n = g.n,
                                .k = g.k,
                                .rows = test::rows_of(g),
                                .a_layout = g.layout};
  test::listed_rows<float8_e4m3> listed{g.a, g.a_scales, g.max_rows, g.k};
  if (is_listed) listed.give_to(p);
  scaled_grouped_gemm(worlds[0], p);
  worlds[0].synchronize();
  return c;
}

TEST(scaled_gemm, each_rows_blocks_are_scaled_by_their_own_and_their_groups_scales_on_the_cpu) {
  constexpr int counts[] = {3, 0, 20, 1};
  for (const scale_layout layout : {scale_layout::row_major, scale_layout::column_major}) {
    const scaled_gemm_case exact = scaled_groups(counts, 136, 272, exact_draws(1), layout, 2);
    EXPECT_EQ(test::wrong_value(exact, called_with_scales(exact), left_alone), "");
    const scaled_gemm_case random = scaled_groups(counts, 136, 272, random_draws(2), layout);
    EXPECT_EQ(test::wrong_value(random, called_with_scales(random), left_alone, fp32_sums), "");
  }
}

TEST(scaled_gemm, rows_and_their_scales_are_taken_from_where_a_list_says_on_the_cpu) {
  constexpr int counts[] = {3, 0, 20, 1};
  const scaled_gemm_case g = scaled_groups(counts, 136, 272, exact_draws(5), scale_layout::row_major, 2);
  EXPECT_EQ(test::wrong_value(g, called_with_scales(g, true), left_alone), "");
}

TEST(scaled_gemm, rows_of_a_list_lie_close_together_without_a_step) {
  constexpr int counts[] = {2, 2};
  scaled_gemm_case g = scaled_groups(counts, 16, 144, exact_draws(6));
  const std::vector<float8_e4m3> few(g.a.begin() + 144, g.a.begin() + 3 * 144);
  const std::vector<float> scales(g.a_scales.begin() + 2, g.a_scales.begin() + 6);
  constexpr std::int32_t list[] = {1, 0, 1, 1};
  for (std::size_t r = 0; r < 4; ++r) {
    std::copy_n(few.begin() + list[r] * 144, 144, g.a.begin() + static_cast<std::ptrdiff_t>(r) * 144);
    std::copy_n(scales.begin() + list[r] * 2, 2, g.a_scales.begin() + static_cast<std::ptrdiff_t>(r) * 2);
  }
  const auto worlds = world::local(1, device_kind::cpu);
  std::vector<bfloat16> c(std::size_t{4} * 16);
  scaled_grouped_gemm(worlds[0], {.a = few.data(),
                                  .a_scales = scales.data(),
                                  .b = g.b.data(),
                                  .b_scales = g.b_scales.data(),
                                  .c = c.data(),
                                  .n = 16,
                                  .k = 144,
                                  .rows = {4, g.counts.data(), g.firsts.data(), 2},
                                  .a_rows = list,
                                  .num_a_rows = 2});
  worlds[0].synchronize();
  EXPECT_EQ(test::wrong_value(g, c, left_alone), "");
}

TEST(scaled_gemm, a_dense_product_is_that_of_one_group) {
  constexpr int rows[] = {37};
  const scaled_gemm_case g = scaled_groups(rows, 264, 144, exact_draws(3));
  const auto worlds = world::local(1, device_kind::cpu);
  std::vector<bfloat16> c(g.group.size() * static_cast<std::size_t>(g.n));
  scaled_gemm(worlds[0],
              {g.a.data(), g.a_scales.data(), g.b.data(), g.b_scales.data(), c.data(), 37, g.n, g.k});
  worlds[0].synchronize();
  EXPECT_EQ(test::wrong_value(g, c, left_alone), "");
}

TEST(scaled_gemm, a_product_without_k_is_zero) {
  const auto worlds = world::local(1, device_kind::cpu);
  std::vector<bfloat16> c(64, bfloat16{left_alone});
  scaled_gemm(worlds[0], {.c = c.data(), .m = 8, .n = 8});
  worlds[0].synchronize();
  for (const bfloat16 v : c) EXPECT_EQ(static_cast<float>(v), 0.0f);
}

TEST(scaled_gemm, bad_arguments_are_named) {
  const auto worlds = world::local(1, device_kind::cpu);
  alignas(16) float8_e4m3 values[256]{};
  alignas(16) bfloat16 c[64]{};
  const float scales[4]{};
  using test::says;
  const auto dense = [&](const scaled_gemm_problem& p, const gemm_config& config = {}) {
    return test::message_of<invalid_argument>([&] { scaled_gemm(worlds[0], p, config); });
  };
  EXPECT_TRUE(says(dense({values, scales, values, scales, c, 8, 12, 16}), "n: 12 is not a multiple of 8"));
  EXPECT_TRUE(says(dense({values, scales, values, scales, c, 8, 8, 24}), "k: 24 is not a multiple of 16"));
  EXPECT_TRUE(says(dense({values, scales, values, scales, c, -1, 8, 16}), "m: -1"));
  EXPECT_TRUE(says(dense({values, scales, values, scales, c, 8, 8, 16}, {.num_sms = -1}), "num_sms: -1"));
  EXPECT_TRUE(says(dense({values, scales, values, scales, c, 8, 8, 16}, {.tiles = gemm_tiles::wide}),
                   "tiles: wide", "paired or medium"));
  EXPECT_TRUE(says(dense({nullptr, scales, values, scales, c, 8, 8, 16}), "a: null", "[m, k] = [8, 16]"));
  EXPECT_TRUE(says(dense({values + 1, scales, values, scales, c, 8, 8, 16}), "a: ", "16 bytes"));
  EXPECT_TRUE(says(dense({values, nullptr, values, scales, c, 8, 8, 16}), "a_scales: null", "[8, 1]"));
  EXPECT_TRUE(says(dense({values, scales, values, nullptr, c, 8, 8, 16}), "b_scales: null", "[1, 1]"));
  EXPECT_TRUE(says(dense({values, scales, values, scales, c, 8, 8, 16, scale_layout::tiled_128x4}),
                   "a_layout: tiled_128x4", "row_major or column_major"));
  std::int32_t counts[2]{};
  const auto grouped = [&](const row_selection& rows, int n = 8) {
    const scaled_grouped_gemm_problem p{values, scales, values, scales, c, n, 16, rows};
    return test::message_of<invalid_argument>([&] { scaled_grouped_gemm(worlds[0], p); });
  };
  EXPECT_TRUE(says(grouped({8, counts, counts, 0}), "rows.num_ranges: 0 is outside [1, 512]"));
  EXPECT_TRUE(says(grouped({8, counts, counts, 2}, 4), "n: 4 is not a multiple of 8"));
  const scaled_grouped_gemm_problem by_column{
      values, scales, values, scales, c, 8, 16, {8, counts, counts, 2}, 0, scale_layout::column_major,
      counts, 8};
  EXPECT_TRUE(says(test::message_of<invalid_argument>([&] { scaled_grouped_gemm(worlds[0], by_column); }),
                   "a_layout: column_major, expected row_major with a_rows"));
}

TEST(scaled_gemm_config, automatic_tiles_are_small_where_few_large_ones_leave_sms_idle) {
  constexpr int sms = 132;
  const auto of = [](int m, int n, int k) {
    return name(
        gemm_kernels::chosen_of(gemm_kernels::scaled_tile_rates, {.num_sms = sms, .splits = 1}, m, n, k)
            .tiles);
  };
  EXPECT_STREQ(of(8192, 8192, 8192), "paired");
  EXPECT_STREQ(of(2048, 2048, 2048), "paired");
  EXPECT_STREQ(of(1024, 1024, 1024), "medium");
  EXPECT_STREQ(of(128, 7168, 2048), "medium");
}

}  // namespace
}  // namespace baton
