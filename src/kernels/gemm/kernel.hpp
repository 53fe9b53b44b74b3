#pragma once
// C = activation(alpha * A * B^T + beta * C + bias) on tensor cores, warp-specialised, persistent, in clusters: bf16 or fp16 in,
// the same or fp32 out; of groups, and of e4m3 with scales (scaled_products.hpp), bf16 out, C =
// row_weight * activation(A * B^T + bias).
//
//   role       groups     registers  takes           gives           work per slot (64 values of k, or 128 of e4m3)
//   producer   1 (1 warp) 40         free slots      filled slots    a box of A; its part of B, to all blocks of the cluster
//   + feed     (2 warps)             the same        the same        what goes with 64 rows of A each: e4m3: scales; listed: they
//   consumer   2          232        filled slots    free slots      64 x columns x 64 (128); at a tile's end 16 rows a warp
//
//   producer    | fill 0 | fill 1 | fill 2 | fill 3 | wait | fill 4 | ...      slot = step mod stages; tiles go on
//   consumer 0           | mul 0 . mul 1, free 0 . mul 2, free 1 . ...  last | store | mul ...
//   consumer 1              | mul 0 . mul 1, free 0 . ...               the other one's products fill the store's time
//
// Hand-over: protocol/staged_pipeline.hpp. A slot is filled when its bytes have landed, those from the other blocks too. It is
// free when the consumer warps of all blocks of the cluster have released it: what a block loads goes to each of them. Cluster i
// takes tiles i, i + clusters, ... of the walk; roles agree on them without a word, or who loads tells consumers of a tile with
// its first slot. Blocks that share out k give each other nothing but sums, at a tile's end (block_sums.hpp).
#include <type_traits>

#include "base/constant.hpp"
#include "base/silu.hpp"
#include "exec/kernel.hpp"
#include "kernels/gemm/block_sums.hpp"
#include "kernels/gemm/epilogue.hpp"
#include "kernels/gemm/feed.hpp"
#include "kernels/gemm/products.hpp"
#include "kernels/gemm/scaled_products.hpp"

namespace baton::gemm_kernels {

template <config C, class X>
class block_role {
  static_assert(why_not<C>() == nullptr);
  using plan = block_plan<C>;
  using pipeline = slot_pipeline<C>;
  using accumulators = typename X::template group_accumulators<C.columns>;
  using products = typename products_of<C, X>::type;
  using feed_role = feed<C, X>;
  using sums = typename sums_of<C, X>::type;
  static constexpr int fillings = 1 + feed_role::arrivals;  // of a slot

 public:
  BATON_FN block_role(X& x, const params& p)
      : x_{x}, p_{p}, tiles_{x, p}, steps_{steps_of<C>(x, p.k)}, slots_{plan{}.barriers(x)} {}

  BATON_FN void run() {
    x_.launch_dependents();
    x_.block_each(pipeline::num_mbars, [&](int i) {
      const bool is_full = i < pipeline::total_stages;
      x_.mbarrier_init(plan{}.barriers(x_) + i, is_full ? fillings : C.cluster * consumer_warps);
      x_.fence_mbarrier_init();
    });
    if constexpr (C.split)
      x_.block_each(consumer_warps, [&](int share) {
        split_sum::prepare(x_, plan{}.sum_barriers(x_), share, consumer_warps);
        x_.fence_mbarrier_init();
      });
    x_.await_dependencies();  // nobody touches the operands earlier
    tiles_.build(x_);
    x_.sync_cluster();
    const int group = x_.group();
    if (group < producer.groups) {
      x_.template leave_registers<producer.registers>();
      if (x_.warp() == 0) produce();
      if constexpr (feed_role::warps > 0)
        if (x_.warp() > 0 && x_.warp() <= feed_role::warps) feed_slots(x_.warp() - 1);
    } else {
      x_.template take_registers<consumer.registers>();
      consume(group - producer.groups);
    }
    x_.sync_cluster();  // nobody leaves while others arrive at its barriers
  }

 private:
  /// f(tile, look) of each tile of this block; false ends the walk. `look()` finds the next tile: to be called once, while there
  /// is something else to wait for.
  template <class F>
  BATON_FN void each_tile(F f) {
    typename tiles_of<C>::type::cursor cursor{x_, tiles_};
    tile next{};
    const auto look = [&] {
      cursor.look(x_, next);
      if constexpr (C.told()) more_ = cursor.is_at(next);
    };
    look();
    while (cursor.is_at(next)) {
      const tile now = next;
      cursor.step(x_);
      if (!f(now, look)) return;
    }
  }

  BATON_FN void produce() {
    auto out = slots_.producer();
    if (steps_.count == 0) return;
    x_.elect([&] {
      if constexpr (!C.listed) x_.prefetch(p_.a);
      x_.prefetch(p_.b);
      if constexpr (C.gated) x_.prefetch(p_.b_up);
      x_.prefetch(p_.c);
    });
    const wait_site where{.where = "gemm.slot_free"};
    each_tile([&](const tile& t, auto look) {
      if constexpr (C.told()) look();
      for (int k = 0; k < steps_.count; ++k) {
        if (!out.producer_acquire(x_, where)) return false;
        if constexpr (C.told())
          if (k == 0) tell_of(t, out.index());
        x_.elect([&] { fill(out.index(), out.producer_mbar(), (steps_.first + k) * block_k<C>, t); });
        out.step();
      }
      if constexpr (!C.told()) look();
      return true;
    });
  }

  /// In front of what fills the slot, so that who sees it filled sees this.
  BATON_FN void tell_of(const tile& t, int slot) {
    told_tile* const told = plan{}.told(x_) + slot;
    x_.elect([&] {
      x_.write(&told->row, std::int32_t{t.row});
      x_.write(&told->rows, std::int32_t{t.rows});
      x_.write(&told->column, std::int32_t{t.column});
      x_.write(&told->b_row, std::int32_t{t.b_row});
      x_.write(&told->more, std::int32_t{more_});
    });
  }

  BATON_FN void feed_slots(int number) {
    if (steps_.count == 0) return;
    feed_role role{x_, p_, steps_, number};
    each_tile([&](const tile& t, auto look) {
      if (!role.run(t)) return false;
      look();
      return true;
    });
    role.finish();
  }

  /// One lane: the block's box of A, and its part of B for all blocks. Of a group with few rows half a box of A, or none.
  BATON_FN void fill(int stage, mbarrier* filled, int k, const tile& t) {
    const int a_rows = C.listed    ? 0
                       : C.grouped ? smaller(align_up(larger(t.rows, 0), group_rows), block_m)
                                   : block_m;
    x_.template mbarrier_arrive_expect<scope::block>(filled, (a_rows + C.columns) * operand<C>::row_bytes);
    if (a_rows > 0)
      x_.tensor_load(a_slot<C>(x_, stage).at, a_rows == block_m ? p_.a : p_.a_half, {k, t.row}, filled);
    const int part = row_block<C>(x_) * C.b_box_rows();
    if constexpr (C.has_alpha())
      if (p_.b_is_rows_of_k) return fill_rows_of_k(stage, filled, k, t.column, part);
    std::byte* b = b_slot<C>(x_, stage).from_row(part).at;
    if constexpr (C.cluster == 1) x_.tensor_load(b, p_.b, {k, t.b_row + part}, filled);
    if constexpr (C.gated)
      x_.tensor_load(b_slot<C>(x_, stage).from_row(C.b_box_rows()).at, p_.b_up, {k, t.b_row}, filled);
    if constexpr (C.cluster > 1)
      x_.tensor_load_to(b, p_.b, {k, t.b_row + part}, filled, (1u << C.cluster) - 1);
  }

  /// The block's part of B's columns, a box for each 64 of them.
  BATON_FN void fill_rows_of_k(int stage, mbarrier* filled, int k, int column, int part) {
    const auto b = as_rows_of_k(b_slot<C>(x_, stage));
    for (int i = part; i < part + C.b_box_rows(); i += b.columns_a_tile) {
      if constexpr (C.cluster == 1) x_.tensor_load(b.tile(i).at, p_.b, {column + i, k}, filled);
      if constexpr (C.cluster > 1)
        x_.tensor_load_to(b.tile(i).at, p_.b, {column + i, k}, filled, (1u << C.cluster) - 1);
    }
  }

  BATON_FN void consume(int number) {
    if constexpr (C.told()) return consume_told(number);
    products products{x_, p_, steps_.count, number};
    results<C, X> results{x_, p_, number};
    sums sums{x_, number};
    each_tile([&](const tile& t, auto look) {
      if (C.grouped && t.rows <= number * group_rows) {
        look();
        return products.pass();
      }
      accumulators acc;
      if (!products.multiply(acc, results, look)) return false;
      if (!sums.add_up(acc)) return false;
      if (!sums.owns()) return true;
      store(number, acc, t, results);
      return true;
    });
    results.finish();
  }

  /// The same where tiles are told of. What is told of a slot's is read before the slot is free again.
  BATON_FN void consume_told(int number) {
    if (steps_.count == 0) return;
    products products{x_, p_, steps_.count, number};
    results<C, X> results{x_, p_, number};
    typename tiles_of<C>::type::cursor cursor{x_, tiles_};
    tile first{};
    cursor.look(x_, first);
    for (bool more = cursor.is_at(first); more;) {
      if (!products.wait()) return;
      const told_tile* const told = plan{}.told(x_) + products.slot();
      if (told_of(told->rows) <= number * group_rows) {
        more = told_of(told->more) != 0;
        if (!products.pass()) return;
        continue;
      }
      accumulators acc;
      tile t;
      const bool multiplied = products.multiply(acc, results, [&] {
        t = {told_of(told->row), told_of(told->rows), told_of(told->column), 0};
        if constexpr (C.epilogue) t.b_row = told_of(told->b_row);
        more = told_of(told->more) != 0;
      });
      if (!multiplied) return;
      store(number, acc, t, results);
    }
    results.finish();
  }
  /// From a broadcast, so that it is known to be uniform.
  BATON_FN int told_of(const std::int32_t& told) {
    return x_.from_one([&] { return x_.read(&told); });
  }

  /// The group's rows of a tile, of which `acc` has the sums.
  BATON_FN void store(int number, accumulators& acc, const tile& t, results<C, X>& results) {
    const int below = number * group_rows + x_.warp_of_group() * group_warp_rows;
    if constexpr (C.epilogue) {
      results.store_rest();
      epilogue<C, X>{x_, p_}.run(acc, {t.row + below, t.rows - below, t.column}, t.b_row);
    }
    if constexpr (C.gated && !C.epilogue)
      x_.fold_halves(acc, [](float gate, float up) { return silu(gate) * up; });
    results.take(acc, {t.row + below, t.rows - below, t.column});
  }

  X& x_;
  const params& p_;
  typename tiles_of<C>::type tiles_;
  k_steps steps_;
  pipeline slots_;
  bool more_ = false;  // tiles behind the one that is loaded
};

/// `Config` is constant<c>; see base/constant.hpp.
template <class Config>
struct gemm_kernel {
  static constexpr config c = Config::value;
  static constexpr kernel_bounds bounds{.max_threads = num_warps * warp_lanes,
                                        .blocks_per_sm = 1,
                                        .cluster = c.split ? 0 : c.cluster,
                                        .in_groups = true};
  static constexpr std::uint32_t shared_bytes = block_plan<c>{}.bytes;

  template <group_exec_context X>
  static BATON_FN void run(X& x, const params& p) {
    block_role<c, X>{x, p}.run();
  }
};

}  // namespace baton::gemm_kernels
