// Tensor copies, arrivals and group barriers on the CPU machine: what each verb does and orders, and that leaving out an order
// shows in some schedule.
#include <gtest/gtest.h>

#include <vector>

#include "baton/error.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/sim_group_case.hpp"

namespace baton::sim {
namespace {

TEST(sim_tensor_copy, a_box_lands_swizzled_with_zeros_outside_the_matrix) {
  const matrix from{70, 88};
  const tensor_map map = from.map(64);
  const int bad = schedules_that_show(one_warp, [&](context& x, int& wrong) {
    const block_memory m{x};
    init(x, m, 1);
    parity p = parity::even;
    for (const box_origin box : {box_origin{0, 0}, {64, 0}, {0, 64}, {64, 64}, {-8, -3}, {128, 0}}) {
      x.mbarrier_arrive_expect(m.ready, tile_bytes);
      x.tensor_load(m.tile[1].at, map, box, m.ready);
      x.mbarrier_wait<scope::block>(m.ready, p, for_slot);
      p = !p;
      for (int r = 0; r < group_rows; ++r)
        for (int c = 0; c < operand_tile::columns; ++c)
          wrong += value_of(x, m.tile[1], r, c) != from.or_zero(box.row + r, box.column + c);
    }
  });
  EXPECT_EQ(bad, 0);
}

TEST(sim_tensor_copy, reading_a_box_before_its_phase_completes_shows) {
  const matrix from{64, 64};
  const tensor_map map = from.map(64);
  const int bad = schedules_that_show(one_warp, [&](context& x, int& wrong) {
    const block_memory m{x};
    init(x, m, 1);
    x.mbarrier_arrive_expect(m.ready, tile_bytes);
    x.tensor_load(m.tile[0].at, map, {0, 0}, m.ready);
    for (int r = 0; r < group_rows; ++r) wrong += value_of(x, m.tile[0], r, 5) != from.at(r, 5);
    x.mbarrier_wait<scope::block>(m.ready, parity::even, for_slot);
  });
  EXPECT_GT(bad, num_seeds);
}

TEST(sim_tensor_copy, what_a_stored_box_has_outside_the_matrix_is_left_out) {
  matrix to{21, 72};
  const matrix before = to;
  const tensor_map map = to.map(16);
  for (const auto order : {schedule::round_robin, schedule::random, schedule::priority}) {
    to.values = before.values;
    run_once(order, 3, one_warp, [&](context& x) {
      const block_memory m{x};
      for (int i = 0; i < 16 * 8; ++i) x.write(m.tile[0].chunk(i / 8, i % 8), vec16{});
      x.fence_proxy_async();
      x.tensor_store(map, {64, 16}, m.tile[0].at);  // rows 16 to 20, columns 64 to 71 are there
      x.bulk_commit();
      x.bulk_wait();
    });
    for (int r = 0; r < to.rows; ++r)
      for (int c = 0; c < to.columns; ++c)
        EXPECT_EQ(to.at(r, c), r >= 16 && c >= 64 ? 0.0f : before.at(r, c)) << r << " " << c;
  }
}

constexpr grid pair_of_blocks{
    .blocks = 2, .warps = 1, .shared_bytes = block_memory::bytes, .limits = {}, .cluster = 2};

/// Each block of a pair loads half a tile and gives it to both.
template <bool CountsBoth>
int multicast_schedules() {
  const matrix from{64, 64};
  const tensor_map map = from.map(32);
  return schedules_that_show(pair_of_blocks, [&](context& x, int& wrong) {
    const block_memory m{x};
    init(x, m, 1);
    x.mbarrier_arrive_expect(m.ready, CountsBoth ? tile_bytes : tile_bytes / 2);
    const int part = x.cluster_block() * 32;
    x.tensor_load_to(m.tile[0].from_row(part).at, map, {0, part}, m.ready, 3u);
    x.mbarrier_wait<scope::block>(m.ready, parity::even, for_slot);
    for (int r = 0; r < group_rows; ++r)
      for (int c = 0; c < operand_tile::columns; ++c) wrong += value_of(x, m.tile[0], r, c) != from.at(r, c);
    x.sync_cluster();
  });
}

TEST(sim_tensor_copy, a_box_for_several_blocks_lands_and_is_counted_in_each) {
  EXPECT_EQ(multicast_schedules<true>(), 0);
}

TEST(sim_tensor_copy, expecting_the_bytes_of_the_own_part_alone_shows) {
  EXPECT_GT(multicast_schedules<false>(), 10);
}

TEST(sim_tensor_copy, a_box_for_a_block_that_has_ended_is_an_error_that_says_so) {
  const matrix from{64, 64};
  const tensor_map map = from.map(32);
  int caught = 0;
  for (std::uint64_t seed = 1; seed <= num_seeds; ++seed) {
    try {
      run_once(schedule::random, seed, pair_of_blocks, [&](context& x) {
        const block_memory m{x};
        init(x, m, 1);
        if (x.cluster_block() == 1) return;
        for (int i = 0; i < 50; ++i)
          x.fence<order::acq_rel, scope::system>();  // lets the other block go first
        x.tensor_load_to(m.tile[0].at, map, {0, 0}, m.ready, 3u);
      });
    } catch (const error& e) {
      caught += test::says(e.what(), "tensor_load_to: block 1 of its cluster has ended") ? 1 : 0;
    }
  }
  EXPECT_GT(caught, num_seeds / 2);
}

/// The second block writes a word and arrives at the first one's barrier; the release of the write reaches as far as `Reach`.
template <scope Reach>
int arrivals_that_show() {
  return schedules_that_show(pair_of_blocks, [](context& x, int& wrong) {
    static std::uint32_t payload;
    const block_memory m{x};
    if (x.block() == 0) x.write(&payload, 0u);
    init(x, m, 1);
    if (x.cluster_block() == 1) {
      x.write(&payload, 7u);
      x.mbarrier_arrive_at<Reach>(m.ready, 0, 1);
    } else if (x.mbarrier_wait<scope::cluster>(m.ready, parity::even, for_slot)) {
      wrong += x.read(&payload) != 7u;
    }
    x.sync_cluster();
  });
}

TEST(sim_tensor_copy, an_arrival_orders_plain_accesses_as_far_as_its_scope_reaches) {
  EXPECT_EQ(arrivals_that_show<scope::cluster>(), 0);
  EXPECT_GT(arrivals_that_show<scope::block>(), num_seeds / 4) << "the plain half stops at the block";
}

TEST(sim_tensor_copy, misuse_is_told_with_its_place) {
  const matrix from{64, 64};
  const tensor_map map = from.map(64);
  const auto fails = [&](auto body) -> std::string {
    try {
      run_once(schedule::round_robin, 1, one_group, [&](context& x) {
        const block_memory m{x};
        init(x, m, 1);
        body(x, m);
      });
    } catch (const error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_TRUE(test::says(fails([&](context& x, const block_memory& m) {
                           x.tensor_load(x.shared() + 512, map, {0, 0}, m.ready);
                         }),
                         "shared + 512", "multiple of 1024"));
  EXPECT_TRUE(test::says(fails([&](context& x, const block_memory& m) {
                           x.tensor_load(m.tile[2].from_row(8).at, map, {0, 0}, m.ready);
                         }),
                         "8192 bytes at shared + 17408", "shared memory has 24640"));
  EXPECT_TRUE(test::says(fails([&](context& x, const block_memory& m) {
                           x.tensor_load_to(m.tile[0].at, map, {0, 0}, m.ready, 2u);
                         }),
                         "tensor_load_to: block 1 of a cluster of 1"));
  EXPECT_TRUE(test::says(fails([&](context& x, const block_memory& m) {
                           x.box_load_to(m.tile[0].at, map, {0, 0}, m.ready, 2u);
                         }),
                         "box_load_to: block 1 of a cluster of 1"));
  EXPECT_TRUE(test::says(fails([&](context& x, const block_memory& m) {
                           x.box_store(map, {0, -1}, m.tile[0].at);
                         }),
                         "box_store: the box begins at row -1, column 0"));
  EXPECT_TRUE(test::says(fails([&](context& x, const block_memory& m) {
                           context::group_accumulators<128> acc;
                           x.start_product(acc, m.tile[0], m.tile[2], false);  // 128 rows of B are not there
                           x.await_products<0>(acc);
                         }),
                         "a product reads 16 bytes at shared + 24"));
  EXPECT_TRUE(test::says(fails([&](context& x, const block_memory&) { x.sync_groups(0, 1); }),
                         "sync_groups: barrier 0 of 1 groups"));
  EXPECT_TRUE(test::says(fails([&](context& x, const block_memory&) { x.sync_groups(3, 2); }),
                         "barrier 3 of 2 groups", "of 1 to 1"));
}

constexpr grid three_groups{.blocks = 1, .warps = 3 * group_warps, .shared_bytes = block_memory::bytes};

/// Groups 0 and 1 hand a word over through barrier 2, while group 2 never comes there.
template <bool Meets>
int meetings_that_show() {
  return schedules_that_show(three_groups, [](context& x, int& wrong) {
    auto* word = reinterpret_cast<std::uint32_t*>(x.shared());
    if (x.group() == 2) return;
    for (std::uint32_t turn = 1; turn <= 3; ++turn) {
      if (x.warp() == 0) x.write(word, turn);
      if (Meets) x.sync_groups(2, 2);
      wrong += x.read(word) != turn;
      if (Meets) x.sync_groups(2, 2);
    }
  });
}

TEST(sim_groups, groups_meet_at_a_barrier_that_orders_memory_without_the_others) {
  EXPECT_EQ(meetings_that_show<true>(), 0);
  EXPECT_GT(meetings_that_show<false>(), num_seeds);
}

TEST(sim_groups, a_group_that_never_comes_is_a_deadlock_that_names_the_barrier) {
  grid g = three_groups;
  g.limits.deadline_ns = 0;
  try {
    run_once(schedule::round_robin, 1, g, [](context& x) {
      if (x.group() == 0) x.sync_groups(5, 2);
    });
    FAIL();
  } catch (const error& e) {
    EXPECT_TRUE(test::says(e.what(), "rank 0 block 0 warp 0: group barrier 5"));
  }
}

static_assert(registers_at_start(3) == 168 && registers_at_start(4) == 128);

TEST(sim_groups, roles_that_ask_for_more_registers_than_there_are_are_refused) {
  constexpr role_groups right[] = {{1, 40}, {2, 232}}, many[] = {{1, 40}, {2, 240}}, odd[] = {{1, 20}};
  EXPECT_EQ(why_not(right), nullptr);
  EXPECT_TRUE(test::says(why_not(many), "more than the block begins with"));
  EXPECT_TRUE(test::says(why_not(odd), "multiple of 8 from 24 to 240"));
}

}  // namespace
}  // namespace baton::sim
