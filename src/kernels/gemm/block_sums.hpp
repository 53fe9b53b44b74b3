#pragma once
// How the blocks of a cluster that share out k add up what they made of a tile: each consumer warp's 16 rows are added up by one
// block, in the order of k; the others' sums come into its shared memory.
//
//   block 0, warp 0    | products of its part of k | wait for the others | add up | store the 16 rows
//   block 1, warp 0    | products of its part of k | write into block 0, tell | next tile ...
#include <type_traits>

#include "kernels/gemm/tiles.hpp"
#include "protocol/split_sum.hpp"

namespace baton::gemm_kernels {

/// A block's part of the steps along k.
struct k_steps {
  int first, count, all;
};
template <config C, class X>
BATON_FN k_steps steps_of(X& x, int k) {
  const int all = ceil_div(k, block_k<C>);
  if constexpr (!C.split) return {0, all, all};
  const int first = all * x.cluster_block() / x.cluster_blocks();
  return {first, all * (x.cluster_block() + 1) / x.cluster_blocks() - first, all};
}

template <config C, class X>
class block_sums {
  using accumulators = typename X::template group_accumulators<C.columns>;

 public:
  /// `number`: of the consumer group.
  BATON_FN block_sums(X& x, int number)
      : x_{x},
        sum_{x, block_plan<C>{}.sum_barriers(x), number * group_warps + x.warp_of_group(), consumer_warps} {}

  /// Whether this warp has the rows when they are added up.
  BATON_FN bool owns() const { return sum_.owns(x_); }

  /// False: gave up.
  BATON_FN bool add_up(accumulators& acc) { return owns() ? collect(acc) : send(acc); }

 private:
  /// A warp's lanes hold 32 neighbouring pairs at a time.
  BATON_FN static int pair_at(int row, int column) {
    return (column / 8 * 2 + row / 8) * warp_lanes + row % 8 * 4 + column % 8 / 2;
  }
  BATON_FN sum_pair* place_of(int block) {
    return block_plan<C>{}.sums(x_) + sum_.place_of(block) * pairs_of_warp<C>;
  }

  BATON_FN bool send(accumulators& acc) {
    if (!sum_.acquire(x_, {.where = "gemm.sums_read"})) return false;
    sum_pair* const to = x_.in_block(place_of(x_.cluster_block()), sum_.owner());
    x_.each_pair(acc, [&](int row, int column, float& low, float& high) {
      x_.write(to + pair_at(row, column), sum_pair{low, high});
    });
    sum_.tell(x_);
    return true;
  }
  BATON_FN bool collect(accumulators& acc) {
    if (!sum_.await_others(x_, {.where = "gemm.sums_there"})) return false;
    const auto once = x_.mapped(typename X::row_values{}, [](float) { return 1.0f; });
    accumulators sum;
    x_.clear(sum);
    BATON_ROLLED
    for (int block = 0; block < x_.cluster_blocks(); ++block) {
      if (block == x_.cluster_block()) {
        x_.add_scaled(sum, 0, acc, once);
        continue;
      }
      const sum_pair* const from = place_of(block);
      x_.each_pair(sum, [&](int row, int column, float& low, float& high) {
        const sum_pair addend = x_.read(from + pair_at(row, column));
        low += addend.low;
        high += addend.high;
      });
    }
    sum_.release(x_);
    acc = sum;
    return true;
  }

  X& x_;
  split_sum sum_;
};

/// A block that has all of k.
struct own_sums {
  template <class X>
  BATON_FN own_sums(X&, int) {}
  BATON_FN static constexpr bool owns() { return true; }
  template <class Accumulators>
  BATON_FN static constexpr bool add_up(Accumulators&) {
    return true;
  }
};

template <config C, class X>
struct sums_of {
  using type = std::conditional_t<C.split, block_sums<C, X>, own_sums>;
};

}  // namespace baton::gemm_kernels
