// Which block gets which tiles of groups of rows: all of them somebody, and each block about as much.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <tuple>
#include <vector>

#include "kernels/gemm/instances.hpp"
#include "kernels/gemm/tiles.hpp"
#include "tests/support/machine_runs.hpp"

namespace baton {
namespace {

using gemm_kernels::config;
using gemm_kernels::tile;

constexpr int dealt_columns = 1024, dealt_blocks = 6;
constexpr config dealt_of_bf16 = gemm_kernels::group_config<bfloat16, false>;
constexpr config dealt_of_e4m3 = gemm_kernels::scaled_group_config<false>;
constexpr config dealt_in_order = [] {
  config c = dealt_of_e4m3;
  c.evenly = false;
  return c;
}();

struct dealing {
  gemm_kernels::params p;
  std::vector<std::vector<tile>>* of_block;
};

/// Each block's first warp walks along what is its own; all warps of blocks agree, as products that are right show.
template <config C>
struct dealing_kernel {
  template <class X>
  static void run(X& x, const dealing& d) {
    typename gemm_kernels::tiles_of<C>::type tiles{x, d.p};
    tiles.build(x);
    x.sync_block();
    if (x.warp() != 0) return;
    typename gemm_kernels::tiles_of<C>::type::cursor cursor{x, tiles};
    tile next{};
    for (cursor.look(x, next); cursor.is_at(next); cursor.look(x, next)) {
      (*d.of_block)[static_cast<std::size_t>(x.block())].push_back(next);
      cursor.step(x);
    }
  }
};

template <config C>
std::vector<std::vector<tile>> dealt(const std::vector<std::int32_t>& counts, int k = 7168) {
  std::vector<std::int32_t> firsts(counts.size(), 0);
  std::partial_sum(counts.begin(), counts.end() - 1, firsts.begin() + 1);
  std::vector<std::vector<tile>> of_block(dealt_blocks);
  dealing d{.p = {}, .of_block = &of_block};
  d.p.m = firsts.back() + counts.back();
  d.p.n = dealt_columns;
  d.p.k = k;
  d.p.counts = counts.data();
  d.p.firsts = firsts.data();
  d.p.groups = static_cast<int>(counts.size());
  test::run_on_machine<dealing_kernel<C>>({},
                                          {.blocks = dealt_blocks,
                                           .warps = gemm_kernels::num_warps,
                                           .shared_bytes = gemm_kernels::block_plan<C>{}.bytes},
                                          d);
  return of_block;
}

/// Sorted: first row, first column, row of B, of all tiles, each with as dealt_many rows as it has.
std::vector<std::tuple<int, int, int, int>> all_tiles_of(const std::vector<std::vector<tile>>& of_block) {
  std::vector<std::tuple<int, int, int, int>> all;
  for (const auto& block : of_block)
    for (const tile& t : block)
      all.emplace_back(t.row, t.column, t.b_row, std::min(t.rows, gemm_kernels::block_m));
  std::sort(all.begin(), all.end());
  return all;
}

std::vector<std::tuple<int, int, int, int>> expected_tiles_of(const std::vector<std::int32_t>& counts) {
  std::vector<std::tuple<int, int, int, int>> all;
  int first = 0, group = 0;
  for (const int count : counts) {
    for (int row = 0; row < count; row += gemm_kernels::block_m)
      for (int column = 0; column < dealt_columns; column += dealt_of_e4m3.columns)
        all.emplace_back(first + row, column, group * dealt_columns + column,
                         std::min(count - row, gemm_kernels::block_m));
    first += count;
    ++group;
  }
  std::sort(all.begin(), all.end());
  return all;
}

bool is_part_of_a_tile(const tile& t) {
  return t.rows <= gemm_kernels::block_m / 2;
}

/// The most that a block has of what `counts` it has, beyond who has the least.
template <class Counts>
int spread_of_tiles(const std::vector<std::vector<tile>>& of_block, Counts counts) {
  int least = std::numeric_limits<int>::max(), most = 0;
  for (const auto& block : of_block) {
    const int own = static_cast<int>(std::count_if(block.begin(), block.end(), counts));
    least = std::min(least, own);
    most = std::max(most, own);
  }
  return most - least;
}

const std::vector<std::int32_t> dealt_many(16, 270),
    dealt_few(16, 140), dealt_mixed{0, 1, 300, 64, 65, 900, 0, 128, 200};

TEST(dealt_tiles, every_tile_of_every_group_is_one_blocks) {
  for (const auto& counts : {dealt_many, dealt_few, dealt_mixed}) {
    EXPECT_EQ(all_tiles_of(dealt<dealt_of_bf16>(counts)), expected_tiles_of(counts));
    EXPECT_EQ(all_tiles_of(dealt<dealt_of_e4m3>(counts)), expected_tiles_of(counts));
    EXPECT_EQ(all_tiles_of(dealt<dealt_in_order>(counts)), expected_tiles_of(counts));
  }
}

TEST(dealt_tiles, a_block_has_as_many_whole_ones_and_as_many_parts_as_any_other_give_or_take_one) {
  const auto whole = [](const tile& t) { return !is_part_of_a_tile(t); };
  for (const auto& of_block : {dealt<dealt_of_bf16>(dealt_many), dealt<dealt_of_bf16>(dealt_few),
                               dealt<dealt_of_e4m3>(dealt_many)}) {
    EXPECT_LE(spread_of_tiles(of_block, is_part_of_a_tile), 1);
    EXPECT_LE(spread_of_tiles(of_block, whole), 1);
  }
  EXPECT_GT(spread_of_tiles(dealt<dealt_in_order>(dealt_many), is_part_of_a_tile),
            1);  // three to a column, and blocks a multiple of three
}

TEST(dealt_tiles, with_few_rows_and_with_few_steps_tiles_of_e4m3_are_dealt_out_in_order) {
  const auto tiles_in_turn = [](const std::vector<std::vector<tile>>& of_block) {
    std::vector<std::tuple<int, int, int>> all;
    for (const auto& block : of_block)
      for (const tile& t : block) all.emplace_back(t.row, t.column, t.rows);
    return all;
  };
  EXPECT_EQ(tiles_in_turn(dealt<dealt_of_e4m3>(dealt_few)), tiles_in_turn(dealt<dealt_in_order>(dealt_few)));
  EXPECT_EQ(tiles_in_turn(dealt<dealt_of_e4m3>(dealt_many, 2048)),
            tiles_in_turn(dealt<dealt_in_order>(dealt_many)));
  EXPECT_NE(tiles_in_turn(dealt<dealt_of_e4m3>(dealt_many)),
            tiles_in_turn(dealt<dealt_in_order>(dealt_many)));
}

}  // namespace
}  // namespace baton
