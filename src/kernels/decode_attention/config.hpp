#pragma once
// What attention of few rows decides before it runs. A structural type: one value is one instantiation.
#include <type_traits>

#include "base/macros.hpp"
#include "base/math.hpp"
#include "exec/group_mma.hpp"
#include "exec/shared_plan.hpp"
#include "protocol/staged_pipeline.hpp"

namespace baton::decode_attention {

/// Who works in a block: so many groups. Registers of a thread: config.
inline constexpr int loader_groups = 1, consumer_groups = 2;
inline constexpr int num_warps = (loader_groups + consumer_groups) * group_warps;
inline constexpr int consumer_warps = consumer_groups * group_warps;

/// Keys are scored by tiles, and copied and multiplied with V by pieces: no page is smaller than one.
inline constexpr int tile_keys = 64, piece_keys = 16, tile_pieces = tile_keys / piece_keys;
/// Rows of a team's blocks are added up so many at a time: those of a consumer warp.
inline constexpr int round_rows = group_warp_rows;
/// Blocks of a team, which is a cluster, at most.
inline constexpr int most_team = 8;

struct config {
  int head_dim = 512;  // or 256
  int slots = 8;       // of the ring
  bool fp16 = false;   // what q, k, v and O are of; else bf16
  bool softcap = false;
  int loader_registers = 40;  // of a thread; consumers have what is left
  friend constexpr bool operator==(const config&, const config&) = default;

  constexpr int consumer_registers() const {
    const int all = registers_at_start(loader_groups + consumer_groups) * (loader_groups + consumer_groups);
    return (all - loader_groups * loader_registers) / consumer_groups / 8 * 8;
  }
  constexpr int chunks() const { return head_dim / operand_tile::columns; }
  /// Of O, of each consumer group.
  constexpr int columns() const { return head_dim / consumer_groups; }
  /// A slot holds 16 keys of V, or 64 keys of a quarter of K's columns.
  constexpr int k_slots() const { return tile_keys / piece_keys; }
  constexpr int k_slot_chunks() const { return chunks() / k_slots(); }
  constexpr int slot_rows() const { return chunks() * piece_keys; }
  constexpr int slot_bytes() const { return slot_rows() * operand_tile::row_bytes; }
};

template <config C>
using value = std::conditional_t<C.fp16, float16, bfloat16>;
template <config C>
using tile = swizzled_tile<value<C>>;
using sums_tile = swizzled_tile<float>;

/// A place of the line of work (items.hpp).
struct line_place {
  std::int32_t sequence, index,
      start;  // an item: its sequence, which of that, and where it begins on the line
  std::int32_t position;
};
/// Who the parts of an item belong to: `count` teams from `first` on.
struct sharers {
  std::int32_t first = 0, count = 1;
};
/// What of the line is a team's. If its first item begins before, or its last goes on behind, others have parts of those, too.
struct dealt_work {
  line_place begin;
  std::int32_t end;
  sharers of_first, of_last;
};

/// What a block does of an item: the rows of a group of heads, and some of the keys.
struct part {
  std::int32_t sequence, kv_head;
  std::int32_t row, token;              // in all sequences' rows, in the sequence's: of the first
  std::int32_t tokens;                  // rows of each head
  std::int32_t diagonal;                // the key that stands beside the first token
  std::int32_t keys;                    // of the sequence
  std::int32_t first_piece, end_piece;  // of the block
  sharers of;
  std::int32_t number, turn;  // parts that the team had before, and turns of rows_staged
};
/// Where a warp is in its walk through the team's work.
struct walk_state {
  line_place at;
  part now;
};

/// At block scope: the copy engine writes slots and products read them.
template <config C>
using slot_pipeline = staged_pipeline<C.slots, 1, 1, scope::block>;

/// What a row's weights are taken against, and their sum.
struct alignas(8) row_share {
  float most, sum;
};

/// A block's shared memory.
template <config C>
struct block_plan : shared_plan {
  shared_array<eight_rows> q;       // [chunks()][64 rows]
  shared_array<eight_rows> staged;  // [head_dim / 32][round_rows]: rows of O in fp32, of the block's keys
  shared_array<eight_rows> slots;
  shared_array<row_share> shares;  // [round_rows]
  shared_array<dealt_work> dealt;
  shared_array<walk_state> walks;    // [num_warps]
  shared_array<std::uint32_t> late;  // which of the consumers' waits was: wait_of
  shared_array<std::uint32_t> last;  // whether this block is the last of an item's
  shared_array<mbarrier> slot_barriers;
  shared_array<mbarrier> q_filled, q_free;
  shared_array<mbarrier> rows_staged, rows_taken;  // team_sum.hpp

  constexpr block_plan()
      : q{take<eight_rows>(C.chunks() * group_rows / 8)},
        staged{take<eight_rows>(C.head_dim / sums_tile::columns * round_rows / 8)},
        slots{take<eight_rows>(C.slots * C.slot_rows() / 8)},
        shares{take<row_share>(round_rows)},
        dealt{take<dealt_work>(1)},
        walks{take<walk_state>(num_warps)},
        late{take<std::uint32_t>(1)},
        last{take<std::uint32_t>(1)},
        slot_barriers{take<mbarrier>(slot_pipeline<C>::num_mbars)},
        q_filled{take<mbarrier>(1)},
        q_free{take<mbarrier>(1)},
        rows_staged{take<mbarrier>(1)},
        rows_taken{take<mbarrier>(1)} {}
};

/// Null if the kernel can run C, otherwise the first reason it cannot.
template <config C>
consteval const char* why_not() {
  if constexpr (C.head_dim != 256 && C.head_dim != 512) {
    return "head_dim: not 256 or 512";
  } else if constexpr (constexpr role_groups roles[] = {{loader_groups, C.loader_registers},
                                                        {consumer_groups, C.consumer_registers()}};
                       baton::why_not(roles) != nullptr) {
    return baton::why_not(roles);
  } else if constexpr (C.slots < tile_pieces) {
    return "slots: all of Q * K^T of a tile is in flight at once";
  } else {
    return block_plan<C>{}.bytes <= most_shared_bytes ? nullptr
                                                      : "slots: more shared memory than a block has";
  }
}

template <config C, class X>
BATON_FN tile<C> q_tile(X& x, int chunk) {
  return tile<C>{block_plan<C>{}.q(x)->bytes}.from_row(chunk * group_rows);
}
template <config C, class X>
BATON_FN tile<C> slot_tile(X& x, int slot) {
  return tile<C>{block_plan<C>{}.slots(x)->bytes}.from_row(slot * C.slot_rows());
}
/// The round's rows of columns 32 i to 32 i + 31.
template <config C, class X>
BATON_FN sums_tile staged_tile(X& x, int i) {
  return sums_tile{block_plan<C>{}.staged(x)->bytes}.from_row(i * round_rows);
}

}  // namespace baton::decode_attention
