// Products of e4m3 with scales as the kernel runs on the CPU machine.
#include <cstdint>
#include <exception>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/gemm/instances.hpp"
#include "tests/support/group_gemm_runs.hpp"
#include "tests/support/listed_rows.hpp"
#include "tests/support/scaled_gemm_case.hpp"

namespace baton {
namespace {

using gemm_kernels::config;
using gemm_kernels::operand_type;
using test::exact_draws;
using test::random_draws;
using test::scaled_gemm_case;
using test::scaled_groups;

constexpr float left_alone = -1;
/// fp32 sums of k up to 300 terms, and the product of two scales: each rounding is at most 2^-24 of the terms' magnitudes.
constexpr double fp32_sums = 304 * 0x1p-24;

template <config C, class Context = sim::context>
std::vector<bfloat16> scaled_on_the_machine(const scaled_gemm_case& g, const sim::options& how = {},
                                            int clusters = 2) {
  std::vector<bfloat16> c(g.group.size() * static_cast<std::size_t>(g.n), bfloat16{left_alone});
  auto p = test::operands_of(g, c.data());
  if (C.grouped) {
    test::give_groups(p, g);
  }
  test::listed_rows<float8_e4m3> listed{g.a, g.a_scales, g.max_rows, g.k};
  if constexpr (C.listed) listed.give_to(p);
  test::run_group_gemm<C, Context>(p, {.how = how, .clusters = clusters});
  return c;
}

// Small tiles, to be quick.
constexpr config one_part{
    .columns = 128, .stages = 2, .cluster = 1, .places = 1, .grouped = true, .in = operand_type::e4m3};
constexpr config two_parts{
    .columns = 256, .stages = 2, .cluster = 1, .places = 1, .grouped = true, .in = operand_type::e4m3};
constexpr config told_in_slots{.columns = 128,
                               .stages = 2,
                               .cluster = 1,
                               .places = 1,
                               .grouped = true,
                               .in = operand_type::e4m3,
                               .evenly = true};
static_assert(told_in_slots.told() && gemm_kernels::scaled_group_config<false>.told());
constexpr config of_pairs{.columns = 128, .stages = 3, .places = 1, .in = operand_type::e4m3};

TEST(scaled_gemm_kernel, groups_of_any_size_are_exact_and_other_rows_stay_in_every_schedule) {
  constexpr int some[] = {0, 1, 130, 64}, others[] = {65, 0, 5, 16};
  const scaled_gemm_case cases[] = {
      scaled_groups(some, 136, 272, exact_draws(4), scale_layout::row_major, 3),
      scaled_groups(others, 136, 400, exact_draws(5), scale_layout::column_major)};
  for (const scaled_gemm_case& g : cases) {
    for (const sim::options& how : test::product_schedules) {
      EXPECT_EQ(test::wrong_value(g, scaled_on_the_machine<one_part>(g, how), left_alone), "");
      EXPECT_EQ(test::wrong_value(g, scaled_on_the_machine<two_parts>(g, how), left_alone), "");
      EXPECT_EQ(test::wrong_value(g, scaled_on_the_machine<told_in_slots>(g, how), left_alone), "");
    }
  }
}

TEST(scaled_gemm_kernel, pairs_of_blocks_share_what_they_read_of_b_and_scales_are_each_blocks_own) {
  constexpr int rows[] = {300};
  const scaled_gemm_case g = scaled_groups(rows, 264, 272, exact_draws(5));
  for (const sim::options& how : test::product_schedules)
    EXPECT_EQ(test::wrong_value(g, scaled_on_the_machine<of_pairs>(g, how), left_alone), "");
}

TEST(scaled_gemm_kernel, the_same_bits_as_the_loops_on_the_cpu_but_for_the_order_of_a_blocks_sum) {
  constexpr int counts[] = {70, 9};
  const scaled_gemm_case g = scaled_groups(counts, 136, 272, random_draws(6));
  EXPECT_EQ(test::wrong_value(g, scaled_on_the_machine<two_parts>(g), left_alone, fp32_sums), "");
}

TEST(scaled_gemm_kernel, the_configurations_of_gpus_are_exact_too) {
  constexpr int counts[] = {40, 0, 150}, rows[] = {150};
  const scaled_gemm_case groups = scaled_groups(counts, 264, 208, exact_draws(7));
  using gemm_kernels::scaled_group_config;
  EXPECT_EQ(test::wrong_value(groups, scaled_on_the_machine<scaled_group_config<false>>(groups), left_alone),
            "");
  EXPECT_EQ(test::wrong_value(groups, scaled_on_the_machine<scaled_group_config<true>>(groups), left_alone),
            "");
  const scaled_gemm_case dense = scaled_groups(rows, 264, 208, exact_draws(8));
  using gemm_kernels::scaled_config;
  EXPECT_EQ(
      test::wrong_value(dense, scaled_on_the_machine<scaled_config<gemm_tiles::paired>>(dense), left_alone),
      "");
  EXPECT_EQ(
      test::wrong_value(dense, scaled_on_the_machine<scaled_config<gemm_tiles::medium>>(dense), left_alone),
      "");
}

TEST(scaled_gemm_kernel, without_k_all_results_are_zero_and_no_scale_is_looked_at) {
  constexpr int counts[] = {70, 0, 5};
  scaled_gemm_case g = scaled_groups(counts, 136, 0, exact_draws(11), scale_layout::column_major);
  for (const bfloat16 v : scaled_on_the_machine<one_part>(g)) EXPECT_EQ(static_cast<float>(v), 0.0f);
  for (const bfloat16 v : scaled_on_the_machine<of_pairs>(g)) EXPECT_EQ(static_cast<float>(v), 0.0f);
}

/// Slots that never fill: as after a peer is lost, or a copy.
struct scales_alone : sim::context {
  explicit scales_alone(const sim::context& x) : sim::context{x} {}
  void tensor_load(void*, const tensor_map&, box_origin, mbarrier*) {}
  void tensor_load_to(void*, const tensor_map&, box_origin, mbarrier*, std::uint32_t) {}
};

TEST(scaled_gemm_kernel, waits_that_give_up_free_no_slot_and_end_in_every_schedule) {
  constexpr int counts[] = {130}, depth = 640;  // more slots than the ring has
  const scaled_gemm_case g = scaled_groups(counts, 136, depth, exact_draws(12));
  for (const sim::options& how : test::product_schedules) {
    EXPECT_NO_THROW((scaled_on_the_machine<one_part, scales_alone>(g, how, 1)));
    EXPECT_NO_THROW((scaled_on_the_machine<two_parts, scales_alone>(g, how, 1)));
    EXPECT_NO_THROW((scaled_on_the_machine<told_in_slots, scales_alone>(g, how, 1)));
    EXPECT_NO_THROW((scaled_on_the_machine<of_pairs, scales_alone>(g, how, 1)));
  }
}

/// Bugs: scales that are taken before they are there, a slot's scales told of before they are copied, and those of another block.
template <class Context, config C = two_parts>
int schedules_in_which_scaled_products_are_wrong() {
  constexpr int counts[] = {70, 30};
  const scaled_gemm_case g = scaled_groups(counts, 136, 528, exact_draws(9));
  int shown = 0;
  for (const sim::options& how : test::product_schedules) {
    try {
      shown += test::wrong_value(g, scaled_on_the_machine<C, Context>(g, how), left_alone).empty() ? 0 : 1;
    } catch (const std::exception&) {  // the machine's own checks
      ++shown;
    }
  }
  return shown;
}

struct sees_slots_that_are_not_there : sim::context {
  explicit sees_slots_that_are_not_there(const sim::context& x) : sim::context{x} {}
  template <scope S>
  bool mbarrier_is_over(mbarrier*, parity) {
    return true;
  }
};
struct tells_before_it_copies : sim::context {
  explicit tells_before_it_copies(const sim::context& x) : sim::context{x} {}
  void copy_word(void* to, const void* from) { late_.emplace_back(to, from); }
  void mbarrier_arrive_after_copies(mbarrier* b) {
    sim::context::mbarrier_arrive<scope::block>(b, 1);
    for (const auto& [to, from] : late_)
      write(static_cast<float*>(to), read(static_cast<const float*>(from)));
    late_.clear();
  }
  std::vector<std::pair<void*, const void*>> late_;
};
struct releases_before_products_are_done : sim::context {
  explicit releases_before_products_are_done(const sim::context& x) : sim::context{x} {}
  template <int newest, class... Accumulators>
  void await_products(Accumulators&... done) {
    sim::context::await_products<newest + 1>(done...);
  }
};
/// Of a tile behind its first slot's fill: when the next one is filled.
struct tells_late : sim::context {
  explicit tells_late(const sim::context& x) : sim::context{x} {}
  template <class T>
  void write(T* at, const std::type_identity_t<T>& value) {
    if constexpr (std::is_same_v<T, std::int32_t>) {
      std::int32_t* const told = &gemm_kernels::block_plan<told_in_slots>{}.told(*this)->row;
      if (at >= told && at < told + told_in_slots.stages * sizeof(gemm_kernels::told_tile) / sizeof(*at)) {
        late_.emplace_back(at, value);
        return;
      }
    }
    sim::context::write(at, value);
  }
  void tensor_load(void* to, const tensor_map& map, box_origin box, mbarrier* b) {
    if (box.column > 0) {
      for (const auto& [at, value] : late_) sim::context::write(at, value);
      late_.clear();
    }
    sim::context::tensor_load(to, map, box, b);
  }
  std::vector<std::pair<std::int32_t*, std::int32_t>> late_;
};

TEST(scaled_gemm_kernel, tiles_told_of_behind_their_slots_show) {
  EXPECT_EQ((schedules_in_which_scaled_products_are_wrong<sim::context, told_in_slots>()), 0);
  EXPECT_GT((schedules_in_which_scaled_products_are_wrong<tells_late, told_in_slots>()), 0);
}

TEST(scaled_gemm_kernel, slots_taken_early_scales_told_of_early_and_products_not_awaited_show) {
  EXPECT_EQ(schedules_in_which_scaled_products_are_wrong<sim::context>(), 0);
  EXPECT_GT(schedules_in_which_scaled_products_are_wrong<sees_slots_that_are_not_there>(), 0);
  EXPECT_GT(schedules_in_which_scaled_products_are_wrong<tells_before_it_copies>(), 0);
  EXPECT_EQ(schedules_in_which_scaled_products_are_wrong<releases_before_products_are_done>(), 3);
}

TEST(scaled_gemm_kernel, counts_and_firsts_that_cannot_be_are_bounded_by_the_memory_there_is) {
  constexpr int counts[] = {40, 24, 16};
  constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max();
  for (const std::int32_t wrong : {most, -1, 81}) {
    scaled_gemm_case g = scaled_groups(counts, 64, 144, exact_draws(10));
    const scaled_gemm_case right = g;
    g.counts[2] = wrong;
    g.firsts[1] = most;  // nothing is left of group 1
    const std::vector<bfloat16> c = scaled_on_the_machine<one_part>(g);
    for (int row = 0; row < 80; ++row) {
      const bool is_written = row < 40 || (row >= 64 && wrong > 0);
      const auto expected = static_cast<float>(bfloat16{static_cast<float>(right.at(row, 0).sum)});
      EXPECT_EQ(static_cast<float>(c[static_cast<std::size_t>(row) * 64]), is_written ? expected : left_alone)
          << row;
    }
  }
}

}  // namespace
}  // namespace baton
