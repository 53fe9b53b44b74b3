// Products of groups of rows as users call them on the CPU.
#include "baton/grouped_gemm.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "baton/error.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/grouped_gemm_case.hpp"
#include "tests/support/listed_rows.hpp"

namespace baton {
namespace {

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

}  // namespace
}  // namespace baton
