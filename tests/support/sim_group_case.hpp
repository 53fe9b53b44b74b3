#pragma once
// What tests of tensor copies and of products of groups on the CPU machine have in common: matrices, a block's memory,
// schedules.
#include <vector>

#include "sim/context.hpp"
#include "sim/tensor_map.hpp"

namespace baton::sim {

inline constexpr wait_site for_slot{.where = "test"};
inline constexpr int num_seeds = 20;
inline constexpr int tile_bytes = group_rows * box_row_bytes;

inline void run_once(schedule order, std::uint64_t seed, const grid& g,
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

inline float value_of(context& x, const operand_tile& tile, int row, int column) {
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

inline void init(context& x, const block_memory& m, int arrivals) {
  if (x.warp() == 0) {
    x.mbarrier_init(m.ready, arrivals);
    x.fence_mbarrier_init();
  }
  x.sync_cluster();
}

inline constexpr grid one_warp{.blocks = 1, .warps = 1, .shared_bytes = block_memory::bytes};
inline constexpr grid one_group{.blocks = 1, .warps = group_warps, .shared_bytes = block_memory::bytes};

}  // namespace baton::sim
