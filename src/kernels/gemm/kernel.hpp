#pragma once
// C = alpha * A * B^T + beta * C on tensor cores, warp-specialised, persistent, in clusters: bf16 in, bf16 or fp32 out.
//
//   role       groups     registers  takes           gives           work per slot (64 values of k)
//   producer   1 (1 warp) 40         free slots      filled slots    a box of A; its part of B, to all blocks of the cluster
//   consumer   2          232        filled slots    free slots      64 x columns x 64; at a tile's end 16 rows a warp
//
//   producer    | fill 0 | fill 1 | fill 2 | fill 3 | wait | fill 4 | ...      slot = step mod stages; tiles go on
//   consumer 0           | mul 0 . mul 1, free 0 . mul 2, free 1 . ...  last | store | mul ...
//   consumer 1              | mul 0 . mul 1, free 0 . ...               the other one's products fill the store's time
//
// Hand-over: protocol/staged_pipeline.hpp. A slot is filled when its bytes have landed, those from the other blocks too. It is
// free when the consumer warps of all blocks of the cluster have released it: what a block loads goes to each of them. Cluster i
// takes tiles i, i + clusters, ... of the walk; roles agree on them without a word.
#include <cmath>
#include <type_traits>

#include "base/constant.hpp"
#include "base/convert.hpp"
#include "exec/kernel.hpp"
#include "kernels/gemm/params.hpp"
#include "protocol/mma_commit.hpp"

namespace baton::gemm_kernels {

template <config C, class X>
class block_role {
  static_assert(why_not<C>() == nullptr);
  using plan = block_plan<C>;
  using pipeline = slot_pipeline<C>;
  using accumulators = typename X::template group_accumulators<C.columns>;
  static constexpr int b_part = C.columns / C.cluster;
  static constexpr int slot_bytes = (block_m + C.columns) * operand_tile::row_bytes;

 public:
  BATON_FN block_role(X& x, const params& p)
      : x_{x},
        p_{p},
        walk_{walk_of<C>(p.m, p.n)},
        steps_{ceil_div(p.k, block_k)},
        slots_{plan{}.barriers(x)} {}

  BATON_FN void run() {
    x_.block_each(pipeline::num_mbars, [&](int i) {
      const bool is_full = i < pipeline::total_stages;
      x_.mbarrier_init(plan{}.barriers(x_) + i, is_full ? 1 : C.cluster * consumer.groups * group_warps);
      x_.fence_mbarrier_init();
    });
    x_.sync_cluster();
    const int group = x_.group();
    if (group < producer.groups) {
      x_.template leave_registers<producer.registers>();
      if (x_.warp() == 0) produce();
    } else {
      x_.template take_registers<consumer.registers>();
      consume(group - producer.groups);
    }
    x_.sync_cluster();  // nobody leaves while others arrive at its barriers
  }

 private:
  /// f(first row, first column) of each tile of this block; false ends the walk.
  template <class F>
  BATON_FN void each_tile(F f) {
    const int clusters = x_.num_blocks() / C.cluster;
    for (int index = x_.block() / C.cluster; index < walk_.size(); index += clusters) {
      const tile_walk::place at = walk_.at(index);
      if (!f((at.row * C.cluster + x_.cluster_block()) * block_m, at.column * C.columns)) return;
    }
  }

  BATON_FN void produce() {
    auto out = slots_.producer();
    if (steps_ == 0) return;
    x_.elect([&] {
      x_.prefetch(p_.a);
      x_.prefetch(p_.b);
      x_.prefetch(p_.c);
    });
    const wait_site where{.where = "gemm.slot_free"};
    each_tile([&](int row, int column) {
      for (int k = 0; k < steps_; ++k) {
        if (!out.producer_acquire(x_, where)) return false;
        x_.elect([&] { fill(out.index(), out.producer_mbar(), k * block_k, row, column); });
        out.step();
      }
      return true;
    });
  }

  /// One lane: the block's box of A, and its part of B for all blocks.
  BATON_FN void fill(int stage, mbarrier* filled, int k, int row, int column) {
    const int part = x_.cluster_block() * b_part;
    x_.template mbarrier_arrive_expect<scope::block>(filled, slot_bytes);
    x_.tensor_load(a_slot(stage).at, p_.a, {k, row}, filled);
    std::byte* b = b_slot(stage).from_row(part).at;
    if constexpr (C.cluster == 1) x_.tensor_load(b, p_.b, {k, column + part}, filled);
    if constexpr (C.cluster > 1)
      x_.tensor_load_to(b, p_.b, {k, column + part}, filled, (1u << C.cluster) - 1);
  }

  BATON_FN void consume(int number) {
    auto in = slots_.consumer();
    each_tile([&](int row, int column) {
      accumulators acc;
      if (!multiply(acc, in, number)) return false;
      const int first_row = row + number * group_rows + x_.warp_of_group() * group_warp_rows;
      if constexpr (C.scaled) scale(acc, first_row, column);
      store(acc, number, first_row, column);
      return true;
    });
    x_.bulk_wait_read();
  }

  /// One tile's products: those of a step run while the slot of the next is waited for. False: gave up.
  BATON_FN bool multiply(accumulators& acc, typename pipeline::consumer_end& in, int number) {
    const wait_site where{.where = "gemm.slot_filled"};
    awaited_engine<scope::block> awaited;
    if (steps_ == 0) x_.clear(acc);
    bool filled = true;
    int before = 0;
    for (int k = 0; k < steps_; ++k) {
      filled = in.consumer_wait(x_, where);
      if (!filled) break;
      x_.start_product(acc, a_slot(in.index()).from_row(number * group_rows), b_slot(in.index()), k > 0);
      x_.template await_products<1>();
      if (k > 0) in.consumer_release_at(x_, awaited, before);
      before = in.index();
      in.step();
    }
    x_.template await_products<0>(acc);
    if (filled && steps_ > 0) in.consumer_release_at(x_, awaited, before);
    return filled;
  }

  /// alpha * acc + beta * C, from the warp's first row and the tile's first column on.
  BATON_FN void scale(accumulators& acc, int first_row, int first_column) {
    x_.each_pair(acc, [&](int row, int column, float& low, float& high) {
      low *= p_.alpha;
      high *= p_.alpha;
      row += first_row;
      column += first_column;
      if (p_.beta == 0.0f || row >= p_.m || column >= p_.n) return;
      const pair before = read_pair(std::int64_t{row} * p_.n + column);
      low = std::fma(p_.beta, before.low, low);
      high = std::fma(p_.beta, before.high, high);
    });
  }

  struct alignas(8) pair {
    float low, high;
  };
  /// Two neighbours of C as it was.
  BATON_FN pair read_pair(std::int64_t index) const {
    if constexpr (C.float_out) {
      return x_.read(reinterpret_cast<const pair*>(static_cast<const float*>(p_.c_before) + index));
    } else {
      const std::uint32_t word =
          x_.read(reinterpret_cast<const std::uint32_t*>(static_cast<const bfloat16*>(p_.c_before) + index));
      return {low_bf16(word), high_bf16(word)};
    }
  }

  /// Each warp stores its 16 rows alone, out_columns at a time, through its places in turn.
  BATON_FN void store(const accumulators& acc, int number, int first_row, int column) {
    using result = swizzled_tile<std::conditional_t<C.float_out, float, bfloat16>>;
    constexpr int place_rows = group_warp_rows;
    const result places{plan{}.results(x_)->bytes};
    const int first_place = (number * group_warps + x_.warp_of_group()) * C.places;
    BATON_UNROLL
    for (int done = 0; done < C.columns; done += C.out_columns()) {
      const result place = places.from_row((first_place + done / C.out_columns() % C.places) * place_rows);
      x_.template bulk_wait_read<C.places - 1>();
      x_.put_rows(place, acc, done);
      x_.each_lane([&](int) { x_.fence_proxy_async(); });
      x_.sync_warp();
      x_.elect([&] {
        x_.tensor_store(p_.c, {column + done, first_row}, place.at);
        x_.bulk_commit();
      });
    }
  }

  BATON_FN operand_tile a_slot(int stage) const {
    return operand_tile{plan{}.a(x_)->bytes}.from_row(stage * block_m);
  }
  BATON_FN operand_tile b_slot(int stage) const {
    return operand_tile{plan{}.b(x_)->bytes}.from_row(stage * C.columns);
  }

  X& x_;
  const params& p_;
  tile_walk walk_;
  int steps_;
  pipeline slots_;
};

/// `Config` is constant<c>; see base/constant.hpp.
template <class Config>
struct gemm_kernel {
  static constexpr config c = Config::value;
  static constexpr kernel_bounds bounds{
      .max_threads = num_warps * warp_lanes, .blocks_per_sm = 1, .cluster = c.cluster, .in_groups = true};

  template <group_exec_context X>
  static BATON_FN void run(X& x, const params& p) {
    block_role<c, X>{x, p}.run();
  }
};

}  // namespace baton::gemm_kernels
