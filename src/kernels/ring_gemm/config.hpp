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

/// Null if the kernel can run C, otherwise the first reason it cannot.
template <config C>
consteval const char* why_not() {
  if constexpr (C.warp_m < 16 || C.warp_m % 16 != 0 || C.warp_n < 16 || C.warp_n % 16 != 0) {
    return "warp_m, warp_n: not multiples of 16, which mma computes";
  } else if constexpr (why_not(C.roles) != nullptr) {
    return why_not(C.roles);
  } else if constexpr (C.roles.warps() > 32) {
    return "roles: more than the 32 warps of a block";
  } else {  // 228 KiB of an SM, of which each block costs 1 KiB more than it asks for
    const bool fits = C.blocks_per_sm * (static_cast<int>(block_plan<C>{}.bytes) + 1024) <= 228 * 1024;
    return fits ? nullptr : "stages: more shared memory than an SM has";
  }
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
