#pragma once
// What the CUDA expert MLP decides before it runs. A structural type: one value is one instantiation.
#include "baton/expert_parallel.hpp"
#include "exec/shared_plan.hpp"

namespace baton::expert_mlp_kernels {

/// gate_up: intermediate = silu(gate * x) . (up * x).  down: out = down * intermediate.
enum class step { gate_up, down };

inline constexpr int block_rows = 128;     // rows of one expert in a tile
inline constexpr int block_weights = 128;  // weight rows in a tile: 64 gate and 64 up, or 128 down
inline constexpr int block_k = 64;         // one 128-byte row of bf16 in shared memory
inline constexpr int scale_k = 128;        // values that share an fp8 scale
inline constexpr int num_threads = 256;    // 4 x 2 warps of 32 x 64
inline constexpr int max_local_experts = 1024;

struct config {
  step what = step::gate_up;
  token_format input = token_format::bf16;
  int stages = 3;
  int blocks_per_sm = 2;  // bounds the registers: 64 K / (256 * blocks_per_sm)
  friend constexpr bool operator==(const config&, const config&) = default;
};

/// What a slot of the ring has of a tile's rows, and of its weight rows.
using row_slot = bfloat16[block_rows * block_k];
using weight_slot = bfloat16[block_weights * block_k];

/// The shared memory of a block.
struct block_plan : shared_plan {
  shared_array<row_slot> a;     // [stages]
  shared_array<weight_slot> b;  // [stages]
  shared_array<std::int32_t>
      first_row_tile;  // [max_local_experts + 1]: of each expert; last: how many there are

  constexpr explicit block_plan(const config& c)
      : a{take<row_slot>(c.stages, 128)},
        b{take<weight_slot>(c.stages, 128)},
        first_row_tile{take<std::int32_t>(max_local_experts + 1)} {}
};
/// Columns of the result in a tile.
constexpr int block_columns(const config& c) {
  return c.what == step::gate_up ? block_weights / 2 : block_weights;
}

/// Null if the hardware and this kernel can run `c`, otherwise the first reason they cannot.
constexpr const char* why_not(const config& c) {
  if (c.stages < 2) return "stages: a ring needs two slots to overlap";
  if (c.blocks_per_sm * (static_cast<int>(block_plan{c}.bytes) + 1024) > 228 * 1024)
    return "stages: more shared memory than an SM has";
  if (c.what == step::down && c.input != token_format::bf16) return "input: the intermediate is bf16";
  return nullptr;
}

/// Every configuration compiled into the library. fp8 keeps two sets of accumulators, so one block fills an
/// SM.
inline constexpr config gate_up_bf16{};
inline constexpr config gate_up_fp8{.input = token_format::blockwise_fp8, .stages = 4, .blocks_per_sm = 1};
inline constexpr config down_bf16{.what = step::down};

}  // namespace baton::expert_mlp_kernels
