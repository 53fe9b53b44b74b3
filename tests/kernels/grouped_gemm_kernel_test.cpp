// Products of groups of rows as the kernel runs on the CPU machine.
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/gemm/instances.hpp"
#include "tests/support/group_gemm_runs.hpp"
#include "tests/support/grouped_gemm_case.hpp"
#include "tests/support/listed_rows.hpp"

namespace baton {
namespace {

using gemm_kernels::config;
using test::grouped_gemm_case;
using test::integer_groups;

constexpr float before = -1;

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
