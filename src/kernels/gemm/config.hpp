#pragma once
// What the product of groups decides before it runs. A structural type: one value is one instantiation.
#include <type_traits>

#include "baton/weight_format.hpp"
#include "exec/group_mma.hpp"
#include "exec/shared_plan.hpp"
#include "protocol/split_sum.hpp"
#include "protocol/staged_pipeline.hpp"

namespace baton::gemm_kernels {

/// Who works in a block: so many groups, and the registers of each thread.
inline constexpr role_groups producer{.groups = 1, .registers = 40};
inline constexpr role_groups consumer{.groups = 2, .registers = 232};
inline constexpr role_groups roles[] = {producer, consumer};
static_assert(why_not(roles) == nullptr);

/// Values of A and B.
enum class operand_type { bf16, fp16, e4m3 };

struct config {
  int columns = 256;       // of a block's tile of C, whose rows are block_m
  int stages = 4;          // slots of the ring
  int cluster = 2;         // blocks, one below the other: each loads its part of B and gives it to all
  int places = 2;          // of 16 rows of results, of each consumer warp
  bool float_out = false;  // C is fp32, else of the operands' type, or bf16
  bool epilogue =
      false;             // what a product ends in is looked at; else it ends in its sums, or is gated by silu
  bool grouped = false;  // rows of A belong to groups with a B of their own
  operand_type in = operand_type::bf16;  // e4m3: 128 values of k share a scale
  bool gated =
      false;  // B is two matrices; C = silu(A * B^T) . (A * B_up^T), with scales of its own where it is e4m3
  bool listed = false;  // rows of A lie where a list says
  bool evenly = false;  // tiles of groups are dealt out so that blocks end together; else in order
  bool split = false;   // blocks of a cluster, of any size, share out k, and add up what they make of a tile

  constexpr bool block_scaled() const { return in == operand_type::e4m3; }
  /// Who loads tells of each tile with its first slot, consumers look for none, and their results leave by plain stores. k is
  /// not 0 then.
  constexpr bool told() const { return block_scaled() && evenly && !gated && !listed; }
  constexpr bool e4m3_out() const { return gated && block_scaled(); }
  /// alpha, beta and B [k, n] are of dense products of 16 bits; weights of rows are of groups,
  /// scales of eight bits of e4m3.
  constexpr bool has_alpha() const { return epilogue && !grouped && !block_scaled(); }
  constexpr bool has_exponents() const { return epilogue && block_scaled() && !gated; }
  constexpr bool has_row_weights() const { return epilogue && grouped && !gated; }
  constexpr int out_columns() const {  // of C that a warp stores at a time
    return e4m3_out() ? 128 : float_out ? 32 : 64;
  }
  constexpr int result_columns() const { return gated ? columns / 2 : columns; }  // of C in a tile
  constexpr int b_box_rows() const { return result_columns() / cluster; }
  constexpr bool fed_by_warps() const { return block_scaled() || listed; }
  friend constexpr bool operator==(const config&, const config&) = default;
};

inline constexpr int block_m = consumer.groups * group_rows;
inline constexpr int most_groups = 512;
inline constexpr int num_warps = (producer.groups + consumer.groups) * group_warps;
inline constexpr int consumer_warps = consumer.groups * group_warps;

/// Blocks that k is shared out to, at most: each adds up the rows of a consumer warp or more.
inline constexpr int most_splits = consumer_warps;
/// Two neighbours in a row of sums.
struct alignas(8) sum_pair {
  float low, high;
};
template <config C>
inline constexpr int pairs_of_warp = group_warp_rows* C.columns / 2;

/// Of a slot: rows of 128 bytes.
template <config C>
using operand =
    std::conditional_t<C.block_scaled(), operand_tile_e4m3,
                       std::conditional_t<C.in == operand_type::fp16, operand_tile_fp16, operand_tile>>;
template <config C>
inline constexpr int block_k = operand<C>::columns;

/// A value of C.
template <config C>
using out_value =
    std::conditional_t<C.e4m3_out(), float8_e4m3,
                       std::conditional_t<C.float_out, float,
                                          std::conditional_t<C.in == operand_type::fp16, float16, bfloat16>>>;

/// A bias of 16 bits: of C's type, but where that is e4m3.
template <config C>
using bias_value = std::conditional_t<C.e4m3_out(), bfloat16, out_value<C>>;

/// Columns of B that share a scale, and what a slot has of scales, for its 128 values of k.
inline constexpr int scaled_columns = weight_block;
template <config C>
struct slot_scales {
  static constexpr int b_blocks = ceil_div(C.columns, scaled_columns);
  float a[block_m];
  float b[b_blocks];
};

/// At block scope: the copy engine writes slots and products read them; scales are copied and read by warps of one block.
template <config C>
using slot_pipeline = staged_pipeline<C.stages, 1, C.cluster, scope::block>;

/// Which tile of groups a warp takes next, of whole ones and of parts.
struct tile_cursor {
  std::int32_t whole, part;
};

/// What is told of a tile, and whether there is one behind it.
struct told_tile {
  std::int32_t row, rows, column, b_row, more;
};

/// A block's shared memory.
template <config C>
struct block_plan : shared_plan {
  shared_array<eight_rows> a;        // [stages][block_m / 8]
  shared_array<eight_rows> b;        // [stages][columns / 8]
  shared_array<eight_rows> results;  // [consumer warps][places][16 / 8]
  shared_array<mbarrier> barriers;
  shared_array<mbarrier> sum_barriers;  // [consumer warps]
  shared_array<sum_pair>
      sums;  // [places][pairs_of_warp]: what other blocks made of rows that this one adds up
  shared_array<std::int32_t> tiles;     // [most_groups + 1]: whole ones, of the groups before this one
  shared_array<std::uint32_t> parts;    // bit g: group g has a part of a tile; behind the bits how many have
  shared_array<tile_cursor> cursors;    // [num_warps]
  shared_array<slot_scales<C>> scales;  // [stages]
  shared_array<told_tile> told;         // [stages]: of the tile whose first slot it is
  shared_array<std::int32_t> rows;      // [block_m]: where those of a tile's A lie

  constexpr block_plan()
      : a{take<eight_rows>(C.stages * block_m / 8)},
        b{take<eight_rows>(C.stages * C.columns / 8)},
        results{take<eight_rows>(consumer_warps * C.places * group_warp_rows / 8)},
        barriers{take<mbarrier>(slot_pipeline<C>::num_mbars)},
        sum_barriers{take<mbarrier>(C.split ? consumer_warps : 0)},
        sums{take<sum_pair>(C.split ? split_sum::most_places(consumer_warps) * pairs_of_warp<C> : 0)},
        tiles{take<std::int32_t>(C.grouped ? most_groups + 1 : 0)},
        parts{take<std::uint32_t>(C.evenly ? most_groups / warp_lanes + 1 : 0)},
        cursors{take<tile_cursor>(C.evenly ? num_warps : 0)},
        scales{take<slot_scales<C>>(C.block_scaled() ? C.stages : 0)},
        told{take<told_tile>(C.told() ? C.stages : 0)},
        rows{take<std::int32_t>(C.listed ? block_m : 0)} {}
};

/// Null if the kernel can run C, otherwise the first reason it cannot.
template <config C>
consteval const char* why_not() {
  if constexpr (C.columns != 64 && C.columns != 128 && C.columns != 256) {
    return "columns: not 64, 128 or 256, which products of a group have";
  } else if constexpr (C.cluster < 1 || C.columns / C.cluster % 8 != 0) {
    return "cluster: a block's part of B is not a multiple of eight rows";
  } else if constexpr (C.has_alpha() && C.b_box_rows() % 64 != 0) {
    return "epilogue: a block's part of B is not a multiple of 64 columns, in which rows of k come";
  } else if constexpr (C.stages < 2) {
    return "stages: a ring needs two slots to overlap";
  } else if constexpr (C.listed && C.stages < 3) {
    return "stages: a slot with rows of a list is told of behind the next one, before which one has to be "
           "free";
  } else if constexpr (C.places < 1 || C.result_columns() / C.out_columns() % C.places != 0) {
    return "places: the last place of a tile is the next one's first";
  } else if constexpr (C.block_scaled() && C.float_out) {
    return "block_scaled: results of fp32";
  } else if constexpr ((C.gated || C.listed) && (!C.grouped || C.cluster > 1)) {
    return "gated, listed: of groups, in blocks alone";
  } else if constexpr (C.split && (C.grouped || C.cluster > 1)) {
    return "split: of one product, in clusters that share nothing else";
  } else if constexpr (C.gated && (C.columns != 256 || C.float_out)) {
    return "gated: 128 columns of each matrix, which share a scale of C; not fp32";
  } else {
    return block_plan<C>{}.bytes <= most_shared_bytes ? nullptr
                                                      : "stages: more shared memory than a block has";
  }
}

/// The operands in a slot.
template <config C, class X>
BATON_FN operand<C> a_slot(X& x, int stage) {
  return operand<C>{block_plan<C>{}.a(x)->bytes}.from_row(stage * block_m);
}
template <config C, class X>
BATON_FN operand<C> b_slot(X& x, int stage) {
  return operand<C>{block_plan<C>{}.b(x)->bytes}.from_row(stage * C.columns);
}

}  // namespace baton::gemm_kernels
