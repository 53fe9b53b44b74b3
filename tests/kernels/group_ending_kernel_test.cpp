// What products of groups and of e4m3 end in, a bias, an activation and weights of rows, as the kernel runs on the CPU machine.
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "kernels/gemm/instances.hpp"
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
using test::not_written;
using test::roundings_of_fp32;
using test::scaled_gemm_case;
using test::scaled_groups;
using test::some_counts;
using test::unwritten;

/// The first wrong value of all endings.
template <config C, class Value>
std::string wrong_on_the_machine(const test::typed_grouped_case<Value>& g, const sim::options& how) {
  const ending_values<Value> values{g};
  test::listed_rows<Value> listed{g.a, {}, g.max_rows, g.k};
  for (const group_ending& e : group_endings()) {
    std::vector<Value> c = unwritten<Value>(g);
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
    std::vector<bfloat16> c = unwritten<bfloat16>(g);
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
  std::vector<bfloat16> c = unwritten<bfloat16>(g);
  auto p = test::operands_of(g, c.data());
  const group_ending all{test::bias_kind::fp32, activation::relu, true};
  values.give_to(p, all);
  test::run_group_gemm<ended, reads_within>(p, {});
  EXPECT_EQ(test::wrong_ending(all, values, g, c, not_written), "");
  EXPECT_EQ(reads_within::reads_behind, 0);
}

}  // namespace
}  // namespace baton
