// The ring-buffered product on the CPU machine: exact results, every strategy, every schedule, and what is refused.
#include "baton/ring_gemm.hpp"

#include <cstdint>
#include <limits>
#include <set>

#include "base/constant.hpp"
#include "baton/error.hpp"
#include "kernels/ring_gemm/kernel.hpp"
#include "sim/context.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/machine_runs.hpp"
#include "tests/support/ring_gemm_case.hpp"

namespace baton {
namespace {

using ring_config = ring_gemm_kernels::config;
using ring_gemm_kernels::why_not;
using test::gemm_case;
using test::gemm_size;

static_assert(why_not<ring_gemm_kernels::large_tiles(ring_strategy::mbarrier)>() == nullptr);
static_assert(why_not<ring_gemm_kernels::small_tiles(ring_strategy::single_counter)>() == nullptr);

std::vector<float> product(const gemm_case& g, const ring_gemm_config& c) {
  const auto worlds = world::local(1, device_kind::cpu);
  std::vector<float> out(g.c.size(), -1.0f);
  ring_gemm(worlds[0], {g.a.data(), g.b.data(), out.data(), g.size.m, g.size.n, g.size.k}, c);
  worlds[0].synchronize();
  return out;
}

TEST(ring_gemm, integers_are_exact_at_odd_sizes_with_every_strategy) {
  for (const auto& size :
       {gemm_size{1, 1, 1}, {64, 64, 64}, {65, 63, 129}, {7, 200, 72}, {130, 1, 64}, {3, 5, 1000}}) {
    const gemm_case g = test::integer_gemm(size);
    for (const auto strategy : test::all_ring_strategies)
      EXPECT_EQ(test::wrong_element(g, product(g, {.strategy = strategy}).data()), "") << name(strategy);
  }
}

TEST(ring_gemm, both_tile_sizes_give_the_same_product) {
  const gemm_case g = test::integer_gemm({150, 140, 200});
  EXPECT_EQ(test::wrong_element(g, product(g, {.tiles = ring_gemm_tiles::large}).data()), "");
  EXPECT_EQ(test::wrong_element(g, product(g, {.tiles = ring_gemm_tiles::small}).data()), "");
}

TEST(ring_gemm, real_values_stay_within_one_rounding_a_term) {
  const gemm_case g = test::real_gemm({70, 90, 333});
  const auto first = product(g, {.strategy = ring_strategy::mbarrier});
  EXPECT_EQ(test::wrong_element(g, first.data(), 333), "");
  EXPECT_EQ(first, product(g, {.strategy = ring_strategy::split_counter}))
      << "every strategy gives the same bits";
}

TEST(ring_gemm, operands_need_no_more_alignment_than_their_values) {
  const gemm_case g = test::integer_gemm({20, 30, 72});
  std::vector<float> out(g.c.size());
  for (const bool a_is_aligned : {false, true}) {
    for (const bool b_is_aligned : {false, true}) {
      const auto placed = [](const std::vector<bfloat16>& values, bool is_aligned) {
        std::vector<bfloat16> at(is_aligned ? 0 : 1);
        at.insert(at.end(), values.begin(), values.end());
        return at;
      };
      const std::vector<bfloat16> a = placed(g.a, a_is_aligned), b = placed(g.b, b_is_aligned);
      const ring_gemm_problem p{a.data() + (a_is_aligned ? 0 : 1),
                                b.data() + (b_is_aligned ? 0 : 1),
                                out.data(),
                                g.size.m,
                                g.size.n,
                                g.size.k};
      EXPECT_EQ(ring_gemm_kernels::params_of(p).vectors, a_is_aligned && b_is_aligned);
      const auto worlds = world::local(1, device_kind::cpu);
      ring_gemm(worlds[0], p);
      worlds[0].synchronize();
      EXPECT_EQ(test::wrong_element(g, out.data()), "");
    }
  }
}

TEST(ring_gemm, nothing_to_sum_gives_zeros_and_nothing_to_write_writes_nothing) {
  EXPECT_EQ(product(test::integer_gemm({5, 6, 0}), {}), std::vector<float>(30, 0.0f));
  EXPECT_TRUE(product(test::integer_gemm({0, 6, 8}), {}).empty());
  EXPECT_TRUE(product(test::integer_gemm({5, 0, 8}), {}).empty());
}

TEST(ring_gemm, bad_arguments_are_named) {
  const auto worlds = world::local(1, device_kind::cpu);
  const std::vector<bfloat16> operand(64);
  std::vector<float> out(64);
  const auto message = [&](const ring_gemm_problem& p, const ring_gemm_config& c = {}) {
    return test::message_of<invalid_argument>([&] { ring_gemm(worlds[0], p, c); });
  };
  EXPECT_TRUE(test::says(message({operand.data(), operand.data(), out.data(), -1, 2, 3}), "m: -1"));
  EXPECT_TRUE(test::says(message({operand.data(), operand.data(), nullptr, 8, 8, 8}), "c: null", "[8, 8]"));
  EXPECT_TRUE(test::says(message({nullptr, operand.data(), out.data(), 8, 8, 8}), "a: null", "[m, k]"));
  EXPECT_TRUE(test::says(message({operand.data(), nullptr, out.data(), 8, 8, 8}), "b: null", "[n, k]"));
  EXPECT_TRUE(test::says(message({operand.data(), operand.data(), out.data(), 8, 8, 8}, {.num_sms = -2}),
                         "num_sms: -2"));
  const auto at_odd_address = [](auto* p) {
    return reinterpret_cast<decltype(p)>(reinterpret_cast<std::uintptr_t>(p) + 1);
  };
  EXPECT_TRUE(test::says(message({at_odd_address(operand.data()), operand.data(), out.data(), 8, 8, 8}),
                         "a: ", "not a multiple of 2 bytes"));
  EXPECT_TRUE(test::says(message({operand.data(), operand.data(), at_odd_address(out.data()), 8, 8, 8}),
                         "c: ", "not a multiple of 4 bytes"));
}

TEST(ring_gemm, sizes_that_its_arithmetic_cannot_count_are_refused) {
  const auto worlds = world::local(1, device_kind::cpu);
  const bfloat16 operand{};
  float out = 0;
  const auto message = [&](int m, int n, int k) {
    return test::message_of<invalid_argument>([&] {
      ring_gemm(worlds[0], {&operand, &operand, &out, m, n, k});
    });
  };
  constexpr int most = 1 << 28, too_much = most + 1;
  EXPECT_TRUE(test::says(message(1, 1, too_much), "k: 268435457 is outside [0, 268435456]"));
  EXPECT_TRUE(test::says(message(std::numeric_limits<int>::max(), 1, 1), "m: 2147483647"));
  EXPECT_TRUE(test::says(message(0, too_much, 1), "n: 268435457"));
  EXPECT_TRUE(test::says(message(most, 8192, 1), "c: 268435456 x 8192"));
}

TEST(ring_gemm, choices_that_there_are_not_are_refused) {
  const auto worlds = world::local(1, device_kind::cpu);
  const auto message = [&](const ring_gemm_config& c) {
    return test::message_of<invalid_argument>([&] { ring_gemm(worlds[0], {}, c); });
  };
  EXPECT_TRUE(test::says(message({.strategy = ring_strategy{9}}), "strategy: 9 is no ring_strategy"));
  EXPECT_TRUE(test::says(message({.tiles = ring_gemm_tiles{3}}), "tiles: 3 is no ring_gemm_tiles"));
}

constexpr ring_config small_with(product_roles roles) {
  ring_config c = ring_gemm_kernels::small_tiles(ring_strategy::mbarrier);
  c.roles = roles;
  return c;
}

TEST(ring_gemm_config, what_would_deadlock_or_not_fit_is_refused) {
  using enum tile_order;
  constexpr product_roles two_tiles{2, 2, 2, 1, 2, 2, within_k}, one_tile{2, 2, 2, 2, 2, 4, across_k};
  EXPECT_EQ(why_not<small_with(two_tiles)>(), nullptr) << "several tiles a warp are fine within k";
  EXPECT_TRUE(test::says(why_not<small_with({2, 2, 2, 1, 2, 2, across_k})>(),
                         "holds up the readers of its next tile"));
  EXPECT_EQ(why_not<small_with(one_tile)>(), nullptr) << "one tile a warp";
  EXPECT_TRUE(test::says(why_not<small_with({2, 2, 2, 2, 2, 3, across_k})>(), "consumers"));
  EXPECT_TRUE(test::says(why_not<small_with({.stages = 40, .m_warps = 2, .n_warps = 2})>(), "shared memory"));
  EXPECT_TRUE(test::says(why_not<small_with({.stages = 0})>(), "stages"));
  EXPECT_TRUE(test::says(why_not<ring_config{.warp_n = 24}>(), "multiples of 16"));
}

TEST(ring_gemm_config, what_fits_with_the_cells_of_one_strategy_does_not_with_those_of_another) {
  constexpr auto full = [](ring_strategy s) {
    return ring_config{.strategy = s, .warp_m = 16, .warp_n = 16, .roles = {7, 8, 8, 8, 8, 16}};
  };
  EXPECT_EQ(why_not<full(ring_strategy::mbarrier)>(), nullptr) << "112 slots of 2 KiB and 1.75 KiB of cells";
  EXPECT_TRUE(test::says(why_not<full(ring_strategy::per_reader_flags)>(), "shared memory")) << "3.94 KiB";
}

TEST(ring_gemm_walk, every_tile_is_taken_once) {
  for (const auto& size :
       {gemm_size{1, 1, 0}, {1000, 500, 0}, {64 * 17, 64 * 3, 0}, {64 * 8, 65, 0}, {5, 64 * 40, 0}}) {
    const tile_walk walk{size.m, size.n, 64, 64};
    std::set<std::pair<int, int>> seen;
    for (int i = 0; i < walk.size(); ++i) {
      const auto at = walk.at(i);
      EXPECT_TRUE(at.row >= 0 && at.row < walk.rows && at.column >= 0 && at.column < walk.columns) << i;
      seen.insert({at.row, at.column});
    }
    EXPECT_EQ(static_cast<int>(seen.size()), walk.rows * walk.columns) << test::text(size);
  }
}

/// 32 x 32 tiles of C in warp tiles of 16 x 16, to be quick under many schedules.
constexpr ring_config tiny(ring_strategy s, int a_producers, int b_producers, int consumers) {
  return {.strategy = s,
          .warp_m = 16,
          .warp_n = 16,
          .roles = {2, 2, 2, a_producers, b_producers, consumers, tile_order::within_k}};
}

template <ring_config C>
int wrong_schedules(const gemm_case& g, int seeds) {
  int wrong = 0;
  for (const auto order : {sim::schedule::random, sim::schedule::priority}) {
    for (int seed = 1; seed <= seeds; ++seed) {
      const sim::options how{
          .order = order, .seed = static_cast<std::uint64_t>(seed), .delay_stores = true, .faults = {}};
      std::vector<float> out(g.c.size(), -1.0f);
      sim::grid grid{.blocks = 2, .warps = C.roles.warps()};
      grid.shared_bytes = ring_gemm_kernels::block_plan<C>{}.bytes;
      const ring_gemm_kernels::params p{g.a.data(), g.b.data(), out.data(),       g.size.m,
                                        g.size.n,   g.size.k,   g.size.k % 8 == 0};
      test::run_on_machine<ring_gemm_kernels::ring_gemm_kernel<constant<C>>>(how, grid, p);
      wrong += test::wrong_element(g, out.data()).empty() ? 0 : 1;
    }
  }
  return wrong;
}

TEST(ring_gemm, schedules_and_delayed_stores_change_nothing) {
  const gemm_case g = test::integer_gemm({40, 70, 200});
  using enum ring_strategy;
  EXPECT_EQ(wrong_schedules<tiny(single_counter, 2, 2, 4)>(g, 4), 0);
  EXPECT_EQ(wrong_schedules<tiny(split_counter, 2, 2, 4)>(g, 4), 0);
  EXPECT_EQ(wrong_schedules<tiny(per_reader_flags, 2, 2, 4)>(g, 4), 0);
  EXPECT_EQ(wrong_schedules<tiny(mbarrier, 2, 2, 4)>(g, 4), 0);
}

TEST(ring_gemm, warps_with_several_tiles_finish_and_are_right) {
  const gemm_case g = test::integer_gemm({40, 40, 331});
  using enum ring_strategy;
  EXPECT_EQ(wrong_schedules<tiny(split_counter, 1, 1, 1)>(g, 2), 0);
  EXPECT_EQ(wrong_schedules<tiny(mbarrier, 1, 2, 2)>(g, 2), 0);
  EXPECT_EQ(wrong_schedules<tiny(per_reader_flags, 2, 1, 2)>(g, 2), 0);
}

}  // namespace
}  // namespace baton
