// What products of groups and of e4m3 end in, a bias, an activation and weights of rows, as users call them on the CPU.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "baton/error.hpp"
#include "baton/grouped_gemm.hpp"
#include "baton/scaled_gemm.hpp"
#include "kernels/gemm/params.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/group_ending_case.hpp"
#include "tests/support/listed_rows.hpp"

namespace baton {
namespace {

using test::ending_values;
using test::exact_draws;
using test::group_ending;
using test::group_endings;
using test::integer_groups;
using test::not_written;
using test::roundings_of_fp32;
using test::scaled_gemm_case;
using test::scaled_groups;
using test::some_counts;
using test::unwritten;

template <class Value>
void expect_endings_on_the_cpu(const test::typed_grouped_case<Value>& g) {
  const auto worlds = world::local(1, device_kind::cpu);
  const ending_values<Value> values{g};
  test::listed_rows<Value> listed{g.a, {}, g.max_rows, g.k};
  for (const group_ending& e : group_endings()) {
    for (const bool is_listed : {false, true}) {
      std::vector<Value> c = unwritten<Value>(g);
      grouped_problem<Value> p{
          .a = g.a.data(), .b = g.b.data(), .c = c.data(), .n = g.n, .k = g.k, .rows = test::rows_of(g)};
      if (is_listed) listed.give_to(p);
      values.give_to(p, e);
      grouped_gemm(worlds[0], p);
      worlds[0].synchronize();
      EXPECT_EQ(test::wrong_ending(e, values, g, c, not_written), "");
    }
  }
}

TEST(group_ending, a_groups_bias_an_activation_and_a_rows_weight_come_behind_the_sums_on_the_cpu) {
  expect_endings_on_the_cpu(integer_groups(some_counts, 24, 40, 2, 1, 2));
  expect_endings_on_the_cpu(integer_groups<float16>(some_counts, 24, 40, 2, 1, 2));
  expect_endings_on_the_cpu(integer_groups(some_counts, 24, 0, 2, 1, 2));
}

void expect_scaled_endings_on_the_cpu(const scaled_gemm_case& g, double relative = 0) {
  const auto worlds = world::local(1, device_kind::cpu);
  const ending_values<bfloat16> values{g};
  test::listed_rows<float8_e4m3> listed{g.a, g.a_scales, g.max_rows, g.k};
  for (const group_ending& e : group_endings()) {
    for (const bool is_listed : {false, true}) {
      std::vector<bfloat16> c = unwritten<bfloat16>(g);
      scaled_grouped_gemm_problem p{.a = g.a.data(),
                                    .a_scales = g.a_scales.data(),
                                    .b = g.b.data(),
                                    .b_scales = g.b_scales.data(),
                                    .c = c.data(),
                                    .n = g.n,
                                    .k = g.k,
                                    .rows = test::rows_of(g)};
      if (is_listed) listed.give_to(p);
      values.give_to(p, e);
      scaled_grouped_gemm(worlds[0], p);
      worlds[0].synchronize();
      EXPECT_EQ(test::wrong_ending(e, values, g, c, not_written, relative), "");
    }
  }
}

TEST(group_ending, so_they_do_with_scales_on_the_cpu) {
  expect_scaled_endings_on_the_cpu(scaled_groups(some_counts, 136, 144, exact_draws(1), {}, 2));
  expect_scaled_endings_on_the_cpu(scaled_groups(some_counts, 24, 272, test::random_draws(2), {}, 2),
                                   roundings_of_fp32);
}

TEST(group_ending, a_dense_product_with_scales_ends_in_a_bias_and_an_activation_on_the_cpu) {
  constexpr int rows[] = {37};
  const scaled_gemm_case g = scaled_groups(rows, 264, 144, exact_draws(3));
  const auto worlds = world::local(1, device_kind::cpu);
  const ending_values<bfloat16> values{g};
  for (const group_ending& e : group_endings(false)) {
    std::vector<bfloat16> c = unwritten<bfloat16>(g);
    scaled_gemm_problem p{g.a.data(), g.a_scales.data(), g.b.data(), g.b_scales.data(), c.data(), 37, g.n,
                          g.k};
    values.give_to(p, e);
    scaled_gemm(worlds[0], p);
    worlds[0].synchronize();
    EXPECT_EQ(test::wrong_ending(e, values, g, c, not_written), "");
  }
}

TEST(group_ending, a_weight_multiplies_what_is_infinite_or_no_number_too) {
  constexpr int counts[] = {2};
  auto g = integer_groups(counts, 8, 8);
  const ending_values<bfloat16> values{g};
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const float weights[] = {0, -infinity}, bias[] = {infinity, 0, 0, 0, 0, 0, 0, 0};
  const auto worlds = world::local(1, device_kind::cpu);
  std::vector<bfloat16> c = unwritten<bfloat16>(g);
  alignas(16) float fp32_bias[8];
  std::copy_n(bias, 8, fp32_bias);
  grouped_gemm(
      worlds[0],
      grouped_gemm_problem{
          .c = c.data(), .n = 8, .rows = test::rows_of(g), .fp32_bias = fp32_bias, .row_weights = weights});
  worlds[0].synchronize();
  EXPECT_TRUE(std::isnan(static_cast<float>(c[0])));
  EXPECT_EQ(static_cast<float>(c[1]), 0.0f);
  EXPECT_EQ(static_cast<float>(c[8]), -infinity);
}

TEST(group_ending, bad_arguments_are_named) {
  const auto worlds = world::local(1, device_kind::cpu);
  alignas(16) bfloat16 values[80]{};
  alignas(16) float floats[80]{};
  const std::int32_t rows[2]{};
  using test::says;
  const auto message = [&](auto change) {
    grouped_gemm_problem p{.a = values, .b = values, .c = values, .n = 8, .k = 8, .rows = {8, rows, rows, 2}};
    change(p);
    return test::message_of<invalid_argument>([&] { grouped_gemm(worlds[0], p); });
  };
  EXPECT_TRUE(says(message([&](auto& p) { p.bias = values + 1; }), "bias: ", "not a multiple of 16 bytes"));
  EXPECT_TRUE(says(message([&](auto& p) { p.fp32_bias = floats + 1; }), "fp32_bias: ", "16 bytes"));
  EXPECT_TRUE(says(message([&](auto& p) { p.bias = values, p.fp32_bias = floats; }), "both are given"));
  EXPECT_TRUE(says(message([&](auto& p) { p.act = activation{4}; }), "act: 4 is no activation"));
  const auto* odd = reinterpret_cast<const float*>(reinterpret_cast<const std::byte*>(floats) + 2);
  EXPECT_TRUE(says(message([&](auto& p) { p.row_weights = odd; }), "row_weights: ", "4 bytes"));
  alignas(16) float8_e4m3 bytes[256]{};
  const auto scaled = [&](auto change) {
    scaled_grouped_gemm_problem p{bytes, floats, bytes, floats, values, 8, 16, {8, rows, rows, 2}};
    change(p);
    return test::message_of<invalid_argument>([&] { scaled_grouped_gemm(worlds[0], p); });
  };
  EXPECT_TRUE(says(scaled([&](auto& p) { p.bias = values + 1; }), "bias: ", "not a multiple of 16 bytes"));
  EXPECT_TRUE(says(scaled([&](auto& p) { p.bias = values, p.fp32_bias = floats; }), "both are given"));
  EXPECT_TRUE(says(scaled([&](auto& p) { p.row_weights = odd; }), "row_weights: ", "4 bytes"));
  const auto dense = [&](auto change) {
    scaled_gemm_problem p{bytes, floats, bytes, floats, values, 8, 8, 16};
    change(p);
    return test::message_of<invalid_argument>([&] { scaled_gemm(worlds[0], p); });
  };
  EXPECT_TRUE(says(dense([&](auto& p) { p.fp32_bias = floats + 1; }), "fp32_bias: ", "16 bytes"));
  EXPECT_TRUE(says(dense([&](auto& p) { p.bias = values, p.fp32_bias = floats; }), "both are given"));
  EXPECT_TRUE(says(dense([&](auto& p) { p.act = activation{-1}; }), "act: -1 is no activation"));
}

TEST(group_ending_config, whatever_a_product_ends_in_asks_for_the_kernel_that_looks) {
  using problem = gemm_kernels::operands<bfloat16>;
  const bfloat16 bias{};
  const float one = 1;
  EXPECT_FALSE(problem{}.has_ending());
  EXPECT_TRUE((problem{.alpha = 2}.has_ending()));
  EXPECT_TRUE((problem{.beta = 1}.has_ending()));
  EXPECT_TRUE((problem{.bias = &bias}.has_ending()));
  EXPECT_TRUE((problem{.fp32_bias = &one}.has_ending()));
  EXPECT_TRUE((problem{.act = activation::relu}.has_ending()));
  EXPECT_TRUE((problem{.b_is_rows_of_k = true}.has_ending()));
  EXPECT_TRUE((problem{.row_weights = &one}.has_ending()));
  EXPECT_TRUE((problem{.up_bias = &bias}.has_ending()));
  EXPECT_TRUE((problem{.gate = gating::clamped}.has_ending()));
  const float8_e8m0 exponent{};
  EXPECT_TRUE((problem{.a_exponents = &exponent}.has_ending()));
  EXPECT_TRUE((problem{.b_exponents = &exponent}.has_ending()));
}

}  // namespace
}  // namespace baton
