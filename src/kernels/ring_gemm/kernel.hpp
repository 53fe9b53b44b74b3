#pragma once
// C = A * B^T over two ring buffers, warp-specialised, persistent: bf16 in, fp32 out, any m, n, k.
//
//   role         warps         takes                      gives                     work per step (64 values of k)
//   A producer   a_producers   rows of A, global memory   A slots: warp_m x 64      read to registers, wait, write
//   B producer   b_producers   rows of B, global memory   B slots: warp_n x 64      the same
//   consumer     consumers     an A and a B slot          a tile of C, registers    warp_m x warp_n x 64 mma
//
//   A producer   | fetch 0 | put 0 fetch 1 | put 1 fetch 2 | put 2 ...            slot = step mod stages; tiles of C go on
//   B producer   | fetch 0 | put 0 fetch 1 | put 1 fetch 2 | put 2 ...            without a break: the rings do not see
//   consumer                 |   mma 0       |   mma 1       |  mma 2  ... | store  them
//
// Hand-over: protocol/ring/product_roles.hpp with the strategy of the configuration. Block i takes tiles i, i + blocks,
// ... of the walk.
#include "base/constant.hpp"
#include "exec/kernel.hpp"
#include "kernels/ring_gemm/operand_source.hpp"

namespace baton::ring_gemm_kernels {

template <config C, class X>
class block_role {
  static_assert(why_not<C>() == nullptr);
  static constexpr product_roles roles = C.roles;
  using ring_a = ring_buffer<typename strategies<C>::a>;
  using ring_b = ring_buffer<typename strategies<C>::b>;

 public:
  BATON_FN block_role(X& x, const params& p)
      : x_{x},
        p_{p},
        walk_{p.m, p.n, C.block_m(), C.block_n()},
        steps_{ceil_div(p.k, block_k)},
        a_{x, block_plan<C>{}.a, {.free = "ring_gemm.a_free", .filled = "ring_gemm.a_filled"}},
        b_{x, block_plan<C>{}.b, {.free = "ring_gemm.b_free", .filled = "ring_gemm.b_filled"}} {}

  BATON_FN void run() {
    a_.init(x_);
    b_.init(x_);
    x_.sync_block();
    const int warp = x_.warp();
    if (warp < roles.a_producers) {
      produce_a(warp);
    } else if (warp < roles.a_producers + roles.b_producers) {
      produce_b(warp - roles.a_producers);
    } else {
      consume(warp - roles.a_producers - roles.b_producers);
    }
  }

 private:
  BATON_FN void produce_a(int number) {
    product_producer<typename strategies<C>::a, roles.a_tiles()> end{a_, number, roles.a_producers};
    operand_source<X, C.warp_m> source{p_.a, p_.m, p_.k, p_.vectors};
    produce(end, a_, source, [&](int index) { return walk_.at(index).row * C.block_m(); });
  }
  BATON_FN void produce_b(int number) {
    product_producer<typename strategies<C>::b, roles.b_tiles()> end{b_, number, roles.b_producers};
    operand_source<X, C.warp_n> source{p_.b, p_.n, p_.k, p_.vectors};
    produce(end, b_, source, [&](int index) { return walk_.at(index).column * C.block_n(); });
  }

  /// first_row(tile of C): the first row of the operand that the tile needs.
  template <class End, class Ring, int tile_rows, class FirstRow>
  BATON_FN void produce(End& end, const Ring& ring, operand_source<X, tile_rows>& source,
                        FirstRow first_row) {
    for (int index = x_.block(); index < walk_.size(); index += x_.num_blocks()) {
      const int row = first_row(index);
      const auto fetch = [&](int, int tile, int k) { source.fetch(x_, row + tile * tile_rows, k * block_k); };
      const auto put = [&](int, int tile, int stage) { source.put(x_, {ring.slot(tile, stage)}); };
      if (!end.run(x_, roles.order, steps_, fetch, put)) return;
    }
  }

  BATON_FN void consume(int number) {
    product_consumer<typename strategies<C>::a, typename strategies<C>::b, roles.tiles()> end{
        a_, b_, number, roles.consumers};
    for (int index = x_.block(); index < walk_.size(); index += x_.num_blocks()) {
      typename X::template accumulators<C.warp_m, C.warp_n> acc[roles.tiles()];
      BATON_UNROLL
      for (int i = 0; i < roles.tiles(); ++i) x_.clear(acc[i]);
      const bool ok = end.run(x_, roles.order, steps_, [&](int i, int stage_a, int stage_b) {
        x_.multiply_add(acc[i], {a_.slot(end.m_of(i), stage_a)}, {b_.slot(end.n_of(i), stage_b)});
      });
      if (!ok) return;
      const tile_walk::place at = walk_.at(index);
      BATON_UNROLL
      for (int i = 0; i < roles.tiles(); ++i)
        store(acc[i], at.row * C.block_m() + end.m_of(i) * C.warp_m,
              at.column * C.block_n() + end.n_of(i) * C.warp_n);
    }
  }

  struct alignas(8) float_pair {
    float low, high;
  };

  template <class Accumulators>
  BATON_FN void store(const Accumulators& acc, int first_row, int first_column) {
    const bool pairs = p_.n % 2 == 0 && reinterpret_cast<std::uintptr_t>(p_.c) % 8 == 0;
    x_.each_pair(acc, [&](int row, int column, float low, float high) {
      row += first_row;
      column += first_column;
      if (row >= p_.m || column >= p_.n) return;
      float* to = p_.c + static_cast<std::int64_t>(row) * p_.n + column;
      if (pairs) return x_.write(reinterpret_cast<float_pair*>(to), float_pair{low, high});
      x_.write(to, low);
      if (column + 1 < p_.n) x_.write(to + 1, high);
    });
  }

  X& x_;
  const params& p_;
  tile_walk walk_;
  int steps_;
  ring_a a_;
  ring_b b_;
};

/// `Config` is constant<c>; see base/constant.hpp.
template <class Config>
struct ring_gemm_kernel {
  static constexpr config c = Config::value;
  static constexpr kernel_bounds bounds{.max_threads = c.threads(), .blocks_per_sm = c.blocks_per_sm};
  static constexpr std::uint32_t shared_bytes = block_plan<c>{}.bytes;

  template <mma_exec_context X>
  static BATON_FN void run(X& x, const params& p) {
    block_role<c, X>{x, p}.run();
  }
};

template <ring_strategy S>
using large_kernel = ring_gemm_kernel<constant<large_tiles(S)>>;
template <ring_strategy S>
using small_kernel = ring_gemm_kernel<constant<small_tiles(S)>>;

}  // namespace baton::ring_gemm_kernels
