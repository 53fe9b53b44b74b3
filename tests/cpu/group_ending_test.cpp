// What products of groups and of e4m3 end in, a bias, an activation and weights of rows: as users call them on the CPU, and as
// the kernel runs on the CPU machine.
#include <limits>
#include <span>

#include "baton/error.hpp"
#include "baton/grouped_gemm.hpp"
#include "baton/scaled_gemm.hpp"
#include "kernels/gemm/instances.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/group_ending_case.hpp"
#include "tests/support/group_gemm_runs.hpp"
#include "tests/support/listed_rows.hpp"

namespace baton {
namespace {

using gemm_kernels::config;
using gemm_kernels::operand_type;
using test::ending_values;
using test::exact_draws;
using test::group_ending;
using test::group_endings;
using test::integer_groups;
using test::scaled_gemm_case;
using test::scaled_groups;

constexpr float not_written = -1;
/// fp32 sums of k up to 300 terms, and the product of two scales: each rounding is at most 2^-24 of the terms' magnitudes.
constexpr double roundings_of_fp32 = 304 * 0x1p-24;

/// Groups without rows, a tile's worth and more, and rows of nobody.
constexpr int some_counts[] = {3, 0, 130, 1};

template <class Value, class Case>
std::vector<Value> untouched(const Case& g) {
  return std::vector<Value>(g.group.size() * static_cast<std::size_t>(g.n), Value{not_written});
}

template <class Value>
void expect_endings_on_the_cpu(const test::typed_grouped_case<Value>& g) {
  const auto worlds = world::local(1, device_kind::cpu);
  const ending_values<Value> values{g};
  test::listed_rows<Value> listed{g.a, {}, g.max_rows, g.k};
  for (const group_ending& e : group_endings()) {
    for (const bool is_listed : {false, true}) {
      std::vector<Value> c = untouched<Value>(g);
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
      std::vector<bfloat16> c = untouched<bfloat16>(g);
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
    std::vector<bfloat16> c = untouched<bfloat16>(g);
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
  std::vector<bfloat16> c = untouched<bfloat16>(g);
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

/// The first wrong value of all endings.
template <config C, class Value>
std::string wrong_on_the_machine(const test::typed_grouped_case<Value>& g, const sim::options& how) {
  const ending_values<Value> values{g};
  test::listed_rows<Value> listed{g.a, {}, g.max_rows, g.k};
  for (const group_ending& e : group_endings()) {
    std::vector<Value> c = untouched<Value>(g);
    auto p = test::operands_of(g, c.data());
    if constexpr (C.listed) listed.give_to(p);
    values.give_to(p, e);
    test::run_group_gemm<C>(p, {.how = how});
    if (const std::string wrong = test::wrong_ending(e, values, g, c, not_written); !wrong.empty())
      return wrong;
  }
  return "";
}
template <config C>
std::string wrong_on_the_machine(const scaled_gemm_case& g, const test::gemm_run& run, double relative = 0) {
  const ending_values<bfloat16> values{g};
  test::listed_rows<float8_e4m3> listed{g.a, g.a_scales, g.max_rows, g.k};
  for (const group_ending& e : group_endings(C.grouped)) {
    std::vector<bfloat16> c = untouched<bfloat16>(g);
    auto p = test::operands_of(g, c.data());
    if constexpr (C.grouped) {
      test::give_groups(p, g);
    }
    if constexpr (C.listed) listed.give_to(p);
    values.give_to(p, e);
    test::run_group_gemm<C>(p, run);
    if (const std::string wrong = test::wrong_ending(e, values, g, c, not_written, relative); !wrong.empty())
      return wrong;
  }
  return "";
}

// Small tiles, to be quick.
constexpr config ended{
    .columns = 64, .stages = 2, .cluster = 1, .places = 1, .epilogue = true, .grouped = true, .evenly = true};
constexpr config ended_list{
    .columns = 128, .stages = 3, .cluster = 1, .epilogue = true, .grouped = true, .listed = true};
constexpr config ended_e4m3{.columns = 128,
                            .stages = 2,
                            .cluster = 1,
                            .places = 1,
                            .epilogue = true,
                            .grouped = true,
                            .in = operand_type::e4m3};

TEST(group_ending_kernel, endings_are_of_each_tiles_group_columns_and_rows_in_every_schedule) {
  const auto g = integer_groups(some_counts, 136, 136, 3, 1, 2);
  const scaled_gemm_case scaled = scaled_groups(some_counts, 136, 144, exact_draws(4), {}, 3);
  for (const sim::options& how : test::product_schedules) {
    EXPECT_EQ(wrong_on_the_machine<ended>(g, how), "");
    EXPECT_EQ(wrong_on_the_machine<ended_list>(g, how), "");
    EXPECT_EQ(wrong_on_the_machine<ended_e4m3>(scaled, {.how = how}), "");
  }
}

TEST(group_ending_kernel, without_k_they_are_of_zeros) {
  EXPECT_EQ(wrong_on_the_machine<ended>(integer_groups(some_counts, 136, 0, 3, 1, 2), {}), "");
  EXPECT_EQ(wrong_on_the_machine<ended_e4m3>(scaled_groups(some_counts, 136, 0, exact_draws(5), {}, 3), {}),
            "");
}

TEST(group_ending_kernel, random_values_with_scales_end_as_near_as_their_sums_are) {
  const scaled_gemm_case g = scaled_groups(some_counts, 136, 272, test::random_draws(6));
  EXPECT_EQ(wrong_on_the_machine<ended_e4m3>(g, {}, roundings_of_fp32), "");
}

TEST(group_ending_kernel, the_configurations_of_gpus_end_so_too) {
  constexpr int counts[] = {40, 0, 150};
  const auto g = integer_groups(counts, 264, 72, 1, 1, 2);
  const auto halves = integer_groups<float16>(counts, 264, 72, 1, 1, 2);
  using gemm_kernels::group_config;
  EXPECT_EQ((wrong_on_the_machine<group_config<bfloat16, false, true>>(g, {})), "");
  EXPECT_EQ((wrong_on_the_machine<group_config<bfloat16, true, true>>(g, {})), "");
  EXPECT_EQ((wrong_on_the_machine<group_config<float16, false, true>>(halves, {})), "");
  EXPECT_EQ((wrong_on_the_machine<group_config<float16, true, true>>(halves, {})), "");
}

TEST(group_ending_kernel, those_of_e4m3_end_so_too) {
  constexpr int counts[] = {40, 0, 150}, rows[] = {150};
  const scaled_gemm_case groups = scaled_groups(counts, 264, 144, exact_draws(7), {}, 1),
                         dense = scaled_groups(rows, 264, 336, exact_draws(8));
  using enum gemm_tiles;
  using gemm_kernels::scaled_config, gemm_kernels::scaled_group_config, gemm_kernels::split_config;
  EXPECT_EQ((wrong_on_the_machine<scaled_group_config<false, true>>(groups, {})), "");
  EXPECT_EQ((wrong_on_the_machine<scaled_group_config<true, true>>(groups, {})), "");
  EXPECT_EQ((wrong_on_the_machine<scaled_config<paired, true>>(dense, {})), "");
  EXPECT_EQ((wrong_on_the_machine<scaled_config<medium, true>>(dense, {})), "");
  EXPECT_EQ((wrong_on_the_machine<split_config<bfloat16, float8_e4m3, narrow, true>>(dense, {.splits = 2})),
            "");
  EXPECT_EQ((wrong_on_the_machine<split_config<bfloat16, float8_e4m3, medium, true>>(dense, {.splits = 2})),
            "");
}

/// What lies behind biases and weights is nobody's.
struct reads_within : sim::context {
  static inline std::span<const float> behind[2];
  static inline int reads_behind = 0;

  explicit reads_within(const sim::context& x) : sim::context{x} {}
  template <class T>
  T read(const T* from) {
    for (const std::span<const float> there : behind) {
      const void *const first = there.data(), *const last = there.data() + there.size();
      reads_behind += from >= first && from < last ? 1 : 0;
    }
    return sim::context::read(from);
  }
};

TEST(group_ending_kernel, no_weight_of_a_row_that_there_is_not_is_read_and_no_bias_of_a_column) {
  constexpr int counts[] = {3, 70};
  constexpr std::size_t margin = 256;
  const auto g = integer_groups(counts, 72, 24, 0, 1, 2);
  ending_values<bfloat16> values{g};
  const std::size_t weights = values.weights.size(), biases = values.fp32.size();
  values.weights.resize(weights + margin);
  values.fp32.resize(biases + margin);
  reads_within::behind[0] = std::span{values.weights}.subspan(weights);
  reads_within::behind[1] = std::span{values.fp32}.subspan(biases);
  reads_within::reads_behind = 0;
  std::vector<bfloat16> c = untouched<bfloat16>(g);
  auto p = test::operands_of(g, c.data());
  const group_ending all{test::bias_kind::fp32, activation::relu, true};
  values.give_to(p, all);
  test::run_group_gemm<ended, reads_within>(p, {});
  EXPECT_EQ(test::wrong_ending(all, values, g, c, not_written), "");
  EXPECT_EQ(reads_within::reads_behind, 0);
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
