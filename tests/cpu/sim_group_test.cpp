// Tensor copies and products of groups on the CPU machine: what each verb does and orders, and that leaving out an order shows
// in some schedule.
#include <gtest/gtest.h>

#include <vector>

#include "baton/error.hpp"
#include "sim/context.hpp"
#include "sim/tensor_map.hpp"
#include "tests/cpu/says.hpp"

namespace baton::sim {
namespace {

constexpr wait_site for_slot{.where = "test"};
constexpr int num_seeds = 20;
constexpr int tile_bytes = group_rows * box_row_bytes;

void run_once(schedule order, std::uint64_t seed, const grid& g,
              const std::function<void(context&)>& kernel) {
  machine m{1, {.order = order, .seed = seed, .delay_stores = order != schedule::round_robin, .faults = {}}};
  m.launch(0, g, kernel);
  m.run(0);
}

/// How many of the schedules make `wrong`, which the kernel counts up, or end in an error.
template <class Kernel>
int schedules_that_show(const grid& g, Kernel kernel) {
  int bad = 0;
  for (const auto order : {schedule::round_robin, schedule::random, schedule::priority}) {
    for (std::uint64_t seed = 1; seed <= (order == schedule::round_robin ? 1 : num_seeds); ++seed) {
      int wrong = 0;
      run_once(order, seed, g, [&](context& x) { kernel(x, wrong); });
      bad += wrong > 0 ? 1 : 0;
    }
  }
  return bad;
}

/// A matrix of `rows` x `columns` bf16, of which the value at (r, c) is an integer of its own below 256.
struct matrix {
  int rows, columns;
  std::vector<bfloat16> values;

  matrix(int r, int c)
      : rows{r}, columns{c}, values(static_cast<std::size_t>(r) * static_cast<std::size_t>(c)) {
    for (int i = 0; i < r; ++i)
      for (int j = 0; j < c; ++j) values[index(i, j)] = bfloat16{value(i, j)};
  }
  static float value(int row, int column) { return static_cast<float>((row * 31 + column * 7) % 251 + 1); }
  std::size_t index(int row, int column) const { return static_cast<std::size_t>(row * columns + column); }
  float at(int row, int column) const { return static_cast<float>(values[index(row, column)]); }
  float or_zero(int row, int column) const {
    return row >= 0 && column >= 0 && row < rows && column < columns ? at(row, column) : 0.0f;
  }
  tensor_map map(int box_rows) const {
    return make_tensor_map({values.data(), 2, columns, rows, std::int64_t{columns} * 2, box_rows});
  }
};

float value_of(context& x, const operand_tile& tile, int row, int column) {
  const vec16 chunk = x.read(tile.chunk(row, column / operand_tile::chunk_values));
  float eight[8];
  widen(chunk.word, eight);
  return eight[column % 8];
}

/// Shared memory of the tests: three tiles of 64 rows, then barriers.
struct block_memory {
  static constexpr std::size_t bytes = 3 * tile_bytes + 64;
  explicit block_memory(context& x)
      : tile{{x.shared()}, {x.shared() + tile_bytes}, {x.shared() + 2 * tile_bytes}},
        ready{reinterpret_cast<mbarrier*>(x.shared() + 3 * tile_bytes)} {}
  operand_tile tile[3];
  mbarrier* ready;
};

void init(context& x, const block_memory& m, int arrivals) {
  if (x.warp() == 0) {
    x.mbarrier_init(m.ready, arrivals);
    x.fence_mbarrier_init();
  }
  x.sync_cluster();
}

constexpr grid one_warp{.blocks = 1, .warps = 1, .shared_bytes = block_memory::bytes};
constexpr grid one_group{.blocks = 1, .warps = group_warps, .shared_bytes = block_memory::bytes};

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

/// Sum over 64 values of k of rows of two matrices.
float product_at(const matrix& a, const matrix& b, int row, int column) {
  float sum = 0;
  for (int k = 0; k < 64; ++k) sum += a.at(row, k) * b.at(column, k);
  return sum;
}

/// Both operands of one product: 64 x 64 of small integers.
struct operands {
  matrix a{64, 64}, b{64, 64}, other{64, 64};
  operands() {
    for (auto& v : a.values)
      v = bfloat16{static_cast<float>(static_cast<int>(static_cast<float>(v)) % 17 - 8)};
    for (auto& v : b.values)
      v = bfloat16{static_cast<float>(static_cast<int>(static_cast<float>(v)) % 13 - 6)};
    for (auto& v : other.values)
      v = bfloat16{static_cast<float>(static_cast<int>(static_cast<float>(v)) % 5)};
  }
};

int wrong_values(context& x, context::group_accumulators<64>& acc, const operands& o, float times = 1.0f) {
  int wrong = 0;
  x.each_pair(acc, [&](int row, int column, float& low, float& high) {
    row += x.warp_of_group() * group_warp_rows;
    wrong += low != times * product_at(o.a, o.b, row, column);
    wrong += high != times * product_at(o.a, o.b, row, column + 1);
  });
  return wrong;
}

/// What a warp of the group does around its product of tiles 0 and 1, which one lane loads.
struct product_steps {
  bool waits = true;           // for the operands to land
  bool awaits_in_time = true;  // before the operands are written over
  bool awaits_before_use = true;
};

template <product_steps S>
int products_that_show() {
  const operands o;
  const tensor_map a = o.a.map(64), b = o.b.map(64), other = o.other.map(64);
  return schedules_that_show(one_group, [&](context& x, int& wrong) {
    const block_memory m{x};
    init(x, m, 1);
    if (x.warp() == 0) {
      x.mbarrier_arrive_expect(m.ready, 2 * tile_bytes);
      x.tensor_load(m.tile[0].at, a, {0, 0}, m.ready);
      x.tensor_load(m.tile[1].at, b, {0, 0}, m.ready);
    }
    if (S.waits) x.mbarrier_wait<scope::block>(m.ready, parity::even, for_slot);
    context::group_accumulators<64> acc;
    x.clear(acc);
    x.start_product(acc, m.tile[0], m.tile[1], false);
    x.start_product(acc, m.tile[0], m.tile[1], true);
    if (!S.awaits_before_use) wrong += wrong_values(x, acc, o, 2);
    if (S.awaits_in_time) x.await_products<0>(acc);
    if (S.waits) {
      x.sync_block();
      if (x.warp() == 0) {
        x.mbarrier_arrive_expect(m.ready, tile_bytes);
        x.tensor_load(m.tile[0].at, other, {0, 0}, m.ready);
      }
      x.mbarrier_wait<scope::block>(m.ready, parity::odd, for_slot);
    }
    x.await_products<0>(acc);
    wrong += wrong_values(x, acc, o, 2);
    x.mbarrier_wait<scope::block>(m.ready, parity::even, for_slot);
  });
}

TEST(sim_products, products_of_operands_that_have_landed_are_right_and_done_in_order) {
  EXPECT_EQ(products_that_show<product_steps{}>(), 0);
}

TEST(sim_products, a_product_started_before_its_operands_have_landed_shows) {
  EXPECT_GT(products_that_show<product_steps{.waits = false}>(), 5);
}

TEST(sim_products, operands_written_over_before_the_product_is_awaited_show) {
  EXPECT_GT(products_that_show<product_steps{.awaits_in_time = false}>(), 10);
}

TEST(sim_products, accumulators_read_before_the_product_is_awaited_show) {
  EXPECT_GT(products_that_show<product_steps{.awaits_before_use = false}>(), 10);
}

TEST(sim_products, all_but_the_newest_are_awaited) {
  const operands o;
  const tensor_map a = o.a.map(64), b = o.b.map(64);
  const auto run_with = [&](auto awaited) {
    return schedules_that_show(one_group, [&](context& x, int& wrong) {
      const block_memory m{x};
      init(x, m, 1);
      if (x.warp() == 0) {
        x.mbarrier_arrive_expect(m.ready, 2 * tile_bytes);
        x.tensor_load(m.tile[0].at, a, {0, 0}, m.ready);
        x.tensor_load(m.tile[1].at, b, {0, 0}, m.ready);
      }
      x.mbarrier_wait<scope::block>(m.ready, parity::even, for_slot);
      context::group_accumulators<64> first, second;
      x.clear(first);
      x.start_product(first, m.tile[0], m.tile[1], false);
      x.start_product(second, m.tile[0], m.tile[1], false);
      x.await_products<awaited.value>(first);
      wrong += wrong_values(x, first, o);
      x.await_products<0>(first, second);
      wrong += wrong_values(x, second, o);
    });
  };
  EXPECT_EQ(run_with(std::integral_constant<int, 1>{}), 0);
  EXPECT_GT(run_with(std::integral_constant<int, 2>{}), 10) << "one too many left running";
}

/// The warps of the group write the operands themselves.
template <bool Fences>
int plain_operands_that_show() {
  const operands o;
  return schedules_that_show(one_group, [&](context& x, int& wrong) {
    const block_memory m{x};
    for (int i = x.warp(); i < group_rows * 8; i += group_warps) {
      vec16 chunk;
      std::memcpy(&chunk, &o.a.values[static_cast<std::size_t>(i) * 8], sizeof chunk);
      x.write(m.tile[0].chunk(i / 8, i % 8), chunk);
      std::memcpy(&chunk, &o.b.values[static_cast<std::size_t>(i) * 8], sizeof chunk);
      x.write(m.tile[1].chunk(i / 8, i % 8), chunk);
    }
    if (Fences) x.fence_proxy_async();
    x.sync_groups(1, 1);
    context::group_accumulators<64> acc;
    x.start_product(acc, m.tile[0], m.tile[1], false);
    x.await_products<0>(acc);
    wrong += wrong_values(x, acc, o);
  });
}

TEST(sim_products, operands_written_plainly_are_there_after_a_proxy_fence) {
  EXPECT_EQ(plain_operands_that_show<true>(), 0);
  EXPECT_GE(plain_operands_that_show<false>(), 2 * num_seeds) << "in every schedule that delays stores";
}

TEST(sim_products, rows_are_put_rounded_into_tiles_of_both_types) {
  run_once(schedule::round_robin, 1, one_warp, [](context& x) {
    const block_memory m{x};
    context::group_accumulators<128> acc;
    x.each_pair(acc, [](int row, int column, float& low, float& high) {
      low = static_cast<float>(row) + static_cast<float>(column) * 0x1p-10f;
      high = static_cast<float>(row) + static_cast<float>(column + 1) * 0x1p-10f;
    });
    x.put_rows(m.tile[0], acc, 64);
    x.put_rows(swizzled_tile<float>{m.tile[1].at}, acc, 32);
    for (int r = 0; r < group_warp_rows; ++r) {
      for (int c = 0; c < 64; ++c)
        EXPECT_EQ(
            value_of(x, m.tile[0], r, c),
            static_cast<float>(bfloat16{static_cast<float>(r) + static_cast<float>(64 + c) * 0x1p-10f}));
      for (int c = 0; c < 32; ++c) {
        const vec16 chunk = x.read(swizzled_tile<float>{m.tile[1].at}.chunk(r, c / 4));
        EXPECT_EQ(std::bit_cast<float>(chunk.word[c % 4]),
                  static_cast<float>(r) + static_cast<float>(32 + c) * 0x1p-10f);
      }
    }
  });
}

TEST(sim_products, results_are_kept_rounded) {
  run_once(schedule::round_robin, 1, one_warp, [](context& x) {
    const block_memory m{x};
    context::group_accumulators<128> acc;
    x.each_pair(acc, [](int row, int column, float& low, float& high) {
      low = static_cast<float>(row * 128 + column), high = low + 1;
    });
    context::group_results<64, bfloat16> right;
    x.round(acc, 64, right), x.put_rows(m.tile[0], right, 0);
    for (int i = 0; i < group_warp_rows * 64; ++i) {
      const auto left = static_cast<float>(i / 64 * 128 + i % 64);
      EXPECT_EQ(value_of(x, m.tile[0], i / 64, i % 64), static_cast<float>(bfloat16{left + 64}));
    }
  });
}

TEST(sim_products, a_warp_that_gave_up_starts_none) {
  const operands o;
  std::uint32_t abort = 0;
  grid g = one_group;
  g.limits = {.deadline_ns = 1000, .abort = &abort};
  run_once(schedule::round_robin, 1, g, [&](context& x) {
    const block_memory m{x};
    init(x, m, 1);
    context::group_accumulators<64> acc;
    x.clear(acc);
    EXPECT_FALSE(x.mbarrier_wait<scope::block>(m.ready, parity::even, for_slot)) << "nobody fills it";
    x.start_product(acc, m.tile[0], operand_tile{x.shared() - 4096}, true);  // an operand that is nowhere
    x.await_products<0>(acc);
    x.each_pair(acc, [](int, int, float& low, float& high) { EXPECT_EQ(low + high, 0.0f); });
  });
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

TEST(sim_products, groups_meet_at_a_barrier_that_orders_memory_without_the_others) {
  EXPECT_EQ(meetings_that_show<true>(), 0);
  EXPECT_GT(meetings_that_show<false>(), num_seeds);
}

TEST(sim_products, a_group_that_never_comes_is_a_deadlock_that_names_the_barrier) {
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

TEST(sim_products, roles_that_ask_for_more_registers_than_there_are_are_refused) {
  constexpr role_groups right[] = {{1, 40}, {2, 232}}, many[] = {{1, 40}, {2, 240}}, odd[] = {{1, 20}};
  EXPECT_EQ(why_not(right), nullptr);
  EXPECT_TRUE(test::says(why_not(many), "more than the block begins with"));
  EXPECT_TRUE(test::says(why_not(odd), "multiple of 8 from 24 to 240"));
}

}  // namespace
}  // namespace baton::sim
