#pragma once
// Products and nothing else: two groups a block multiply operands that stay in shared memory.
#include "cli/bench/tensor_rate/params.hpp"
#include "exec/kernel.hpp"

namespace baton::tensor_rate {

struct tensor_rate_kernel {
  static constexpr kernel_bounds bounds{
      .max_threads = groups * group_threads, .blocks_per_sm = 1, .in_groups = true};

  template <group_exec_context X>
  static BATON_FN void run(X& x, const params& p) {
    const operand_tile tile{x.shared()};
    x.block_each(operand_rows * operand_tile::chunks, [&](int i) {
      x.write(tile.chunk(i / operand_tile::chunks, i % operand_tile::chunks), x.read(p.values + i));
    });
    x.each_lane([&](int) { x.fence_proxy_async(); });
    x.sync_block();
    const operand_tile a = tile.from_row(x.group() * group_rows), b = tile.from_row(groups * group_rows);
    typename X::template group_accumulators<columns> acc;
    x.start_product(acc, a, b, false);
    for (int i = 1; i < p.steps; ++i) {
      x.start_product(acc, a, b, true);
      x.template await_products<1>();
    }
    x.template await_products<0>(acc);
    // Nobody wants the results, but a product whose result is unused is left out.
    x.each_pair(acc, [&](int, int, float& left, float& right) {
      if (left == p.never || right == p.never) x.write(p.found, left);
    });
  }
};

}  // namespace baton::tensor_rate
