// Products of groups on the CPU machine: what each verb does and orders, and that leaving out an order shows in some schedule.
#include <gtest/gtest.h>

#include "tests/support/sim_group_case.hpp"

namespace baton::sim {
namespace {

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

/// One warp asks for both operands, into tiles 0 and 1, and for `more` bytes that it asks for itself.
void load_operands(context& x, const block_memory& m, const tensor_map& a, const tensor_map& b,
                   int more = 0) {
  x.mbarrier_arrive_expect(m.ready, 2 * tile_bytes + more);
  x.tensor_load(m.tile[0].at, a, {0, 0}, m.ready);
  x.tensor_load(m.tile[1].at, b, {0, 0}, m.ready);
}

int wrong_values(context& x, context::group_accumulators<64>& acc, const operands& o, float times = 1.0f) {
  int wrong = 0;
  x.each_pair(acc, [&](int row, int column, float& low, float& high) {
    row += x.warp_of_group() * group_warp_rows;
    wrong += low != times * product_at(o.a, o.b, row, column);
    wrong += high != times * product_at(o.a, o.b, row, column + 1);
  });
  return wrong;
}

TEST(sim_products, rows_of_k_are_multiplied_as_they_lie) {
  const operands o;
  const tensor_map a = o.a.map(64), b = o.b.map(64), other = o.other.map(64);
  const int bad = schedules_that_show(one_group, [&](context& x, int& wrong) {
    const block_memory m{x};
    init(x, m, 1);
    if (x.warp() == 0) {
      load_operands(x, m, a, b, tile_bytes);
      x.tensor_load(m.tile[2].at, other, {0, 0}, m.ready);
    }
    x.mbarrier_wait<scope::block>(m.ready, parity::even, for_slot);
    context::group_accumulators<128> acc;
    x.start_product(acc, m.tile[0], as_rows_of_k(m.tile[1]), false);
    x.await_products<0>(acc);
    x.each_pair(acc, [&](int row, int column, float& low, float& high) {
      row += x.warp_of_group() * group_warp_rows;
      const matrix& right = column < 64 ? o.b : o.other;
      float sums[2] = {};
      for (int k = 0; k < 64; ++k)
        for (int i = 0; i < 2; ++i) sums[i] += o.a.at(row, k) * right.at(k, column % 64 + i);
      wrong += (low != sums[0]) + (high != sums[1]);
    });
  });
  EXPECT_EQ(bad, 0);
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
    if (x.warp() == 0) load_operands(x, m, a, b);
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
      if (x.warp() == 0) load_operands(x, m, a, b);
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

TEST(sim_products, results_are_taken_from_a_tile_as_they_were_put) {
  run_once(schedule::round_robin, 1, one_warp, [](context& x) {
    const block_memory m{x};
    context::group_results<64, bfloat16> put, taken;
    for (int r = 0; r < group_warp_rows; ++r)
      for (int c = 0; c < 64; ++c) put.at[r][c] = bfloat16{static_cast<float>(r * 64 + c) * 0x1p-3f};
    x.put_rows(m.tile[0].from_row(8), put, 0);
    x.take_rows(m.tile[0].from_row(8), taken);
    for (int r = 0; r < group_warp_rows; ++r)
      for (int c = 0; c < 64; ++c)
        EXPECT_EQ(static_cast<float>(taken.at[r][c]), static_cast<float>(put.at[r][c])) << r << " " << c;
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

}  // namespace
}  // namespace baton::sim
