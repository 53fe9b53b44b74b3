// Products of groups of rows: as users call them on the CPU, and as the kernel runs on the CPU machine.
#include "baton/grouped_gemm.hpp"

#include <limits>

#include "baton/error.hpp"
#include "kernels/gemm/instances.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/group_gemm_runs.hpp"
#include "tests/support/grouped_gemm_case.hpp"
#include "tests/support/listed_rows.hpp"

namespace baton {
namespace {

using gemm_kernels::config;
using test::grouped_gemm_case;
using test::integer_groups;

constexpr float before = -1;

/// With the rows of a one after the other, or where a list says.
template <class Value>
std::vector<Value> called_with_groups(const test::typed_grouped_case<Value>& g, bool is_listed = false) {
  const auto worlds = world::local(1, device_kind::cpu);
  std::vector<Value> c(g.group.size() * static_cast<std::size_t>(g.n), Value{before});
  grouped_problem<Value> p{
      .a = g.a.data(), .b = g.b.data(), .c = c.data(), .n = g.n, .k = g.k, .rows = test::rows_of(g)};
  test::listed_rows<Value> listed{g.a, {}, g.max_rows, g.k};
  if (is_listed) listed.give_to(p);
  grouped_gemm(worlds[0], p);
  worlds[0].synchronize();
  return c;
}

TEST(grouped_gemm, each_row_is_multiplied_by_its_groups_matrix_on_the_cpu) {
  constexpr int counts[] = {3, 0, 70, 1};
  const grouped_gemm_case g = integer_groups(counts, 24, 40, 2);
  EXPECT_EQ(test::wrong_value(g, called_with_groups(g), before), "");
  const auto halves = integer_groups<float16>(counts, 24, 40, 2);
  EXPECT_EQ(test::wrong_value(halves, called_with_groups(halves), before), "");
}

TEST(grouped_gemm, rows_are_taken_from_where_a_list_says_on_the_cpu) {
  constexpr int counts[] = {3, 0, 70, 1};
  const grouped_gemm_case g = integer_groups(counts, 24, 40, 2);
  EXPECT_EQ(test::wrong_value(g, called_with_groups(g, true), before), "");
  const auto halves = integer_groups<float16>(counts, 24, 40, 2);
  EXPECT_EQ(test::wrong_value(halves, called_with_groups(halves, true), before), "");
  const grouped_gemm_case nothing_to_sum = integer_groups(counts, 24, 0);
  EXPECT_EQ(test::wrong_value(nothing_to_sum, called_with_groups(nothing_to_sum, true), before), "");
}

TEST(grouped_gemm, groups_may_read_the_same_row_and_a_row_that_is_none_is_the_first_or_last) {
  constexpr int counts[] = {4, 3};
  grouped_gemm_case g = integer_groups(counts, 16, 24);
  const std::int32_t list[] = {1, 1, -5, 0, 2, 1, 99};
  constexpr int taken[] = {1, 1, 0, 0, 2, 1, 2};
  const std::vector<bfloat16> few(g.a.begin(), g.a.begin() + std::ptrdiff_t{3} * 24);
  for (std::size_t r = 0; r < 7; ++r)
    std::copy_n(few.begin() + taken[r] * 24, 24, g.a.begin() + static_cast<std::ptrdiff_t>(r) * 24);
  const auto worlds = world::local(1, device_kind::cpu);
  std::vector<bfloat16> c(std::size_t{7} * 16, bfloat16{before});
  grouped_gemm(worlds[0], grouped_gemm_problem{.a = few.data(),
                                               .b = g.b.data(),
                                               .c = c.data(),
                                               .n = 16,
                                               .k = 24,
                                               .rows = {7, g.counts.data(), g.firsts.data(), 2},
                                               .a_rows = list,
                                               .num_a_rows = 3});
  worlds[0].synchronize();
  EXPECT_EQ(test::wrong_value(g, c, before), "");
}

template <config C, class Context = sim::context, class Value = bfloat16>
std::vector<Value> on_the_machine(const test::typed_grouped_case<Value>& g, const sim::options& how = {},
                                  int clusters = 2) {
  std::vector<Value> c(g.group.size() * static_cast<std::size_t>(g.n), Value{before});
  auto p = test::operands_of(g, c.data());
  test::listed_rows<Value> listed{g.a, {}, g.max_rows, g.k};
  if constexpr (C.listed) listed.give_to(p);
  test::run_group_gemm<C, Context>(p, {.how = how, .clusters = clusters});
  return c;
}

TEST(grouped_gemm, bad_arguments_are_named) {
  const auto worlds = world::local(1, device_kind::cpu);
  alignas(16) bfloat16 values[80]{};
  std::int32_t rows[3]{};
  using test::says;
  const auto message = [&](const row_selection& of, int n = 8, int k = 8, int stride = 0,
                           const bfloat16* a = nullptr) {
    const grouped_gemm_problem p{a, values, values, n, k, of, stride};
    return test::message_of<invalid_argument>([&] { grouped_gemm(worlds[0], p); });
  };
  EXPECT_TRUE(says(message({8, rows, rows, 0}), "rows.num_ranges: 0 is outside [1, 512]"));
  EXPECT_TRUE(says(message({8, rows, rows, 513}), "rows.num_ranges: 513"));
  EXPECT_TRUE(says(message({-1, rows, rows, 1}), "rows.max_rows: -1"));
  EXPECT_TRUE(says(message({8, nullptr, rows, 1}), "rows.counts: null"));
  EXPECT_TRUE(says(message({8, rows, rows, 1, -1}), "rows.num_sms: -1"));
  EXPECT_TRUE(says(message({8, rows, nullptr, 2}, 8, 8, -1), "stride: -1", "2 groups"));
  EXPECT_TRUE(says(message({8, rows, nullptr, 2}, 8, 8, 1 << 28), "stride: 268435456"));
  EXPECT_TRUE(says(message({8, rows, rows, 1}, 12), "n: 12 is not a multiple of 8"));
  EXPECT_TRUE(says(message({8, rows, rows, 1}, 8, 4), "k: 4 is not a multiple of 8"));
  EXPECT_TRUE(says(message({8, rows, rows, 512}, 1 << 20), "n: 1048576 rows of b for each of 512 groups"));
  EXPECT_TRUE(says(message({8, rows, rows, 1}), "a: null", "[max_rows, k] = [8, 8]"));
  EXPECT_TRUE(says(message({8, rows, rows, 1}, 8, 8, 0, values + 1), "a: ", "not a multiple of 16 bytes"));
}

TEST(grouped_gemm, bad_lists_are_named) {
  const auto worlds = world::local(1, device_kind::cpu);
  alignas(16) bfloat16 values[80]{};
  std::int32_t rows[3]{};
  const auto message = [&](int num_a_rows, int a_row_bytes, const std::int32_t* list) {
    const grouped_gemm_problem p{values, values, values,     8,          16, {2, rows, rows, 1},
                                 0,      list,   num_a_rows, a_row_bytes};
    return test::message_of<invalid_argument>([&] { grouped_gemm(worlds[0], p); });
  };
  using test::says;
  EXPECT_TRUE(says(message(0, 0, rows), "num_a_rows: 0 is outside [1, "));
  EXPECT_TRUE(says(message(2, 16, rows), "a_row_bytes: 16, expected 0 or a multiple of 16", "16 values of k",
                   "32 bytes"));
  EXPECT_TRUE(says(message(2, 40, rows), "a_row_bytes: 40"));
  const auto* odd = reinterpret_cast<const std::int32_t*>(reinterpret_cast<const std::byte*>(rows) + 2);
  EXPECT_TRUE(says(message(2, 0, odd), "a_rows: ", "not a multiple of 4 bytes"));
}

TEST(grouped_gemm, without_first_rows_groups_lie_a_stride_apart) {
  constexpr int counts[] = {3, 0, 5};
  grouped_gemm_case g = integer_groups(std::span<const int>{counts}.first(0), 16, 24);
  for (const int count : counts) {
    const grouped_gemm_case one = integer_groups(std::span<const int>{&count, 1}, 16, 24, 6 - count);
    g.a.insert(g.a.end(), one.a.begin(), one.a.end());
    g.b.insert(g.b.end(), one.b.begin(), one.b.end());
    for (const int of : one.group) g.group.push_back(of < 0 ? -1 : static_cast<int>(g.counts.size()));
    g.counts.push_back(count);
    g.max_rows += 6;
  }
  const auto worlds = world::local(1, device_kind::cpu);
  std::vector<bfloat16> c(g.group.size() * 16, bfloat16{before});
  grouped_gemm(worlds[0], {g.a.data(), g.b.data(), c.data(), 16, 24, {18, g.counts.data(), nullptr, 3}, 6});
  worlds[0].synchronize();
  EXPECT_EQ(test::wrong_value(g, c, before), "");
}

// Small tiles, to be quick.
constexpr config narrow{.columns = 64, .stages = 2, .cluster = 1, .places = 1, .grouped = true};
constexpr config paired{.columns = 64, .stages = 3, .places = 1, .grouped = true};
constexpr config wide{.columns = 128, .stages = 2, .cluster = 1, .grouped = true};
constexpr config listed{
    .columns = 64, .stages = 3, .cluster = 1, .places = 1, .grouped = true, .listed = true};

TEST(grouped_gemm_kernel, groups_of_any_size_are_exact_and_other_rows_stay_in_every_schedule) {
  constexpr int sizes[][5] = {{0, 1, 130, 0, 64}, {65, 0, 0, 300, 16}, {128, 17, 256, 5, 0}, {0, 0, 0, 0, 9}};
  for (const auto& counts : sizes) {
    for (const int gap : {0, 3}) {
      const grouped_gemm_case g = integer_groups(counts, 136, 136, gap);
      for (const sim::options& how : test::product_schedules) {
        EXPECT_EQ(test::wrong_value(g, on_the_machine<narrow>(g, how), before), "");
        EXPECT_EQ(test::wrong_value(g, on_the_machine<paired>(g, how), before), "");
        EXPECT_EQ(test::wrong_value(g, on_the_machine<wide>(g, how), before), "");
        EXPECT_EQ(test::wrong_value(g, on_the_machine<listed>(g, how), before), "");
      }
    }
  }
}

TEST(grouped_gemm_kernel, counts_and_firsts_that_cannot_be_are_bounded_by_the_memory_there_is) {
  constexpr int counts[] = {40, 24, 16};
  constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max(),
                         least = std::numeric_limits<std::int32_t>::min();
  for (const std::int32_t wrong : {most, least, -1, 81}) {
    grouped_gemm_case g = integer_groups(counts, 64, 64);
    const grouped_gemm_case right = g;
    g.counts[2] = wrong;
    g.firsts[1] = most;  // nothing is left of group 1
    const std::vector<bfloat16> c = on_the_machine<narrow>(g);
    for (int row = 0; row < 80; ++row) {
      const bool is_written = row < 40 || (row >= 64 && wrong > 0);
      const auto expected = static_cast<float>(bfloat16{static_cast<float>(right.product(right.b, row, 0))});
      EXPECT_EQ(static_cast<float>(c[static_cast<std::size_t>(row) * 64]), is_written ? expected : before)
          << row;
    }
  }
}

/// Bugs: a kernel that stores the last rows of a group as it stores others, and one that begins before its operands are there.
template <class Context>
int schedules_in_which_groups_are_wrong() {
  constexpr int counts[] = {70, 5, 200, 1};
  const grouped_gemm_case g = integer_groups(counts, 136, 136, 16);
  int shown = 0;
  for (const sim::options& how : test::product_schedules)
    shown += test::wrong_value(g, on_the_machine<narrow, Context>(g, how), before).empty() ? 0 : 1;
  return shown;
}

struct stores_whole_boxes : sim::context {
  explicit stores_whole_boxes(const sim::context& x) : sim::context{x} {}
  template <class F>
  void each(int n, F f) {  // what copy_rows asks for: all 16 rows, also the next group's
    sim::context::each(n == 0 ? 0 : group_warp_rows * operand_tile::chunks, f);
  }
};
struct loads_one_group_for_all : sim::context {
  explicit loads_one_group_for_all(const sim::context& x) : sim::context{x} {}
  void tensor_load(void* to, const tensor_map& map, box_origin box, mbarrier* b) {
    sim::context::tensor_load(to, map, {box.column, box.row % 136}, b);
  }
};

TEST(grouped_gemm_kernel, rows_of_the_next_group_that_are_written_and_the_wrong_groups_matrix_show) {
  EXPECT_EQ(schedules_in_which_groups_are_wrong<sim::context>(), 0);
  EXPECT_EQ(schedules_in_which_groups_are_wrong<stores_whole_boxes>(), 3);
  EXPECT_EQ(schedules_in_which_groups_are_wrong<loads_one_group_for_all>(), 3);
}

TEST(grouped_gemm_kernel, the_configuration_of_gpus_is_exact_too) {
  constexpr int counts[] = {40, 0, 150};
  const grouped_gemm_case g = integer_groups(counts, 264, 200);
  const auto halves = integer_groups<float16>(counts, 264, 200);
  using gemm_kernels::group_config;
  EXPECT_EQ((test::wrong_value(g, on_the_machine<group_config<bfloat16, false>>(g), before)), "");
  EXPECT_EQ((test::wrong_value(g, on_the_machine<group_config<bfloat16, true>>(g), before)), "");
  EXPECT_EQ((test::wrong_value(halves, on_the_machine<group_config<float16, false>>(halves), before)), "");
  EXPECT_EQ((test::wrong_value(halves, on_the_machine<group_config<float16, true>>(halves), before)), "");
}

}  // namespace
}  // namespace baton
