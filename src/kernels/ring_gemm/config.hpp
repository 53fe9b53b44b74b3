#pragma once
// What the ring-buffered product decides before it runs. A structural type: one value is one instantiation.
#include "base/math.hpp"
#include "exec/mma.hpp"
#include "protocol/ring/product_roles.hpp"
#include "protocol/ring/strategies.hpp"

namespace baton::ring_gemm_kernels {

struct config {
  ring_strategy strategy = ring_strategy::mbarrier;
  int warp_m = 64, warp_n = 32;  // a consumer's tile of C; also the rows of A, of B, that a slot holds
  product_roles roles{};
  int blocks_per_sm = 1;  // bounds the registers of a thread and the shared memory

  constexpr int block_m() const { return warp_m * roles.m_warps; }
  constexpr int block_n() const { return warp_n * roles.n_warps; }
  constexpr int threads() const { return roles.warps() * warp_lanes; }
  friend constexpr bool operator==(const config&, const config&) = default;
};

/// k of one step: the columns of an operand_tile.
inline constexpr int block_k = operand_tile::columns;

template <config C>
struct strategies {
  using a = strategy_of<C.strategy, C.roles.a_ring()>;
  using b = strategy_of<C.strategy, C.roles.b_ring()>;
};

/// A block's shared memory: slots of both rings, then their cells.
template <config C>
struct block_plan : shared_plan {
  ring_plan a{.slot_bytes = C.warp_m * operand_tile::row_bytes};
  ring_plan b{.slot_bytes = C.warp_n * operand_tile::row_bytes};

  constexpr block_plan() {
    a.slots = take<std::byte>(C.roles.a_ring().total_tiles() * a.slot_bytes, 128);
    b.slots = take<std::byte>(C.roles.b_ring().total_tiles() * b.slot_bytes, 128);
    a.cells = take<std::byte>(strategies<C>::a::shared_bytes, 16);
    b.cells = take<std::byte>(strategies<C>::b::shared_bytes, 16);
  }
};

/// Null if the kernel can run `c`, otherwise the first reason it cannot.
constexpr const char* why_not(const config& c) {
  if (c.warp_m < 16 || c.warp_m % 16 != 0 || c.warp_n < 16 || c.warp_n % 16 != 0)
    return "warp_m, warp_n: not multiples of 16, which mma computes";
  if (const char* reason = why_not(c.roles)) return reason;
  if (c.roles.warps() > 32) return "roles: more than the 32 warps of a block";
  const int slots = c.roles.a_ring().total_tiles() * c.warp_m + c.roles.b_ring().total_tiles() * c.warp_n;
  if (c.blocks_per_sm * (slots * operand_tile::row_bytes + 4096) > 228 * 1024)
    return "stages: more shared memory than an SM has";
  return nullptr;
}

/// 128 x 128: 2 + 4 producers and 2 x 4 consumers of 64 x 32. 64 x 64: the documents' 2 + 2 producers and 2 x 2
/// consumers of 32 x 32.
constexpr config large_tiles(ring_strategy s) {
  return {.strategy = s, .warp_m = 64, .warp_n = 32, .roles = {4, 2, 4, 2, 4, 8, tile_order::within_k}};
}
constexpr config small_tiles(ring_strategy s) {
  return {.strategy = s,
          .warp_m = 32,
          .warp_n = 32,
          .roles = {4, 2, 2, 2, 2, 4, tile_order::within_k},
          .blocks_per_sm = 2};
}

}  // namespace baton::ring_gemm_kernels
