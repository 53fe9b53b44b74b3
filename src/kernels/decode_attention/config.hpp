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

/// Keys are scored by tiles, copied by pieces, and multiplied with V so, of e4m3 by 64: no page is smaller than a piece.
inline constexpr int piece_keys = 16;
/// Rows of a team's blocks are added up so many at a time.
inline constexpr int round_rows = 8;
/// Blocks of a team.
inline constexpr int most_team = 8;

struct config {
  int head_dim = 512;         // or 256
  int rows = 64;              // of an item, at most; or 16
  int slots = 4;              // of the ring
  bool fp16 = false;          // what q, k, v and O are of; else bf16
  bool e4m3 = false;          // what k and v are of instead
  int loader_registers = 56;  // of a thread; consumers have what is left
  friend constexpr bool operator==(const config&, const config&) = default;

  constexpr int consumer_registers() const {
    const int all = registers_at_start(loader_groups + consumer_groups) * (loader_groups + consumer_groups);
    return (all - loader_groups * loader_registers) / consumer_groups / 8 * 8;
  }
  /// Whether a warp keeps what it is at in shared memory.
  constexpr bool keeps_parts() const { return rows == 64; }
  /// Of 64 columns of Q and O.
  constexpr int chunks() const { return head_dim / operand_tile::columns; }
  /// Of 128 bytes of a row of K or V.
  constexpr int cache_chunks() const { return e4m3 ? head_dim / operand_tile_e4m3::columns : chunks(); }
  /// Who makes rows together: each consumer group makes its own; of e4m3 both make all, by warps.
  constexpr int row_groups() const { return e4m3 ? 1 : consumer_groups; }
  constexpr int row_warps() const { return consumer_warps / row_groups(); }
  constexpr int rows_of_group() const { return rows / row_groups(); }
  /// Weights are taken 2^so many times as large as they are: fp16 has no less than 2^-24, and up to 2^15 of the 2^8 that a weight
  /// may become (running_softmax.hpp) is in it.
  constexpr float weight_bits() const { return e4m3 ? 7 : 0; }
  /// Accumulators that a warp has of O, of 16 of its columns each.
  constexpr int sums() const { return head_dim / group_warp_rows / row_warps(); }
  constexpr int tile_keys() const { return row_warps() * group_warp_rows; }
  constexpr int tile_pieces() const { return tile_keys() / piece_keys; }
  /// A slot holds all of a tile's keys with some chunks of K's columns, or some of its pieces of V.
  constexpr int k_slot_chunks() const { return e4m3 ? 2 : 4; }
  constexpr int k_slots() const { return cache_chunks() / k_slot_chunks(); }
  constexpr int v_slots() const { return k_slots(); }
  constexpr int v_slot_pieces() const { return tile_pieces() / v_slots(); }
  constexpr int slot_rows() const { return tile_keys() * k_slot_chunks(); }
  constexpr int slot_bytes() const { return slot_rows() * operand_tile::row_bytes; }
  /// That a block with less to read than others leaves empty.
  constexpr int spare_slots() const { return larger(slots / 3, 1); }
  /// Eight keys of all chunks of a slot lie together: from those to the next eight.
  constexpr int k_step() const { return k_slot_chunks() * 8 * operand_tile::row_bytes; }
  constexpr int v_step() const { return cache_chunks() * 8 * operand_tile::row_bytes; }
  constexpr int k_piece_bytes() const { return piece_keys / 8 * k_step(); }
  constexpr int v_piece_bytes() const { return piece_keys / 8 * v_step(); }
  /// Whether blocks give their rows to each other, or show them: of more than two rounds shown ones are there sooner.
  constexpr bool gives_rows() const { return rows == 16; }
  /// Of a row that is shown, in 16 bytes; one more than there are, so that rows fall into different banks.
  constexpr int shown_row() const { return head_dim / 4 + 1; }
};

template <config C>
using value = std::conditional_t<C.fp16, float16, bfloat16>;
template <config C>
using tile = swizzled_tile<value<C>>;
/// Of K and V.
template <config C>
using cache_tile = swizzled_tile<std::conditional_t<C.e4m3, float8_e4m3, value<C>>>;
/// What weights are rounded to.
template <config C>
using weight = std::conditional_t<C.e4m3, float16, value<C>>;

struct alignas(16) four_floats {
  float at[4];
};
/// Of two rows that follow one another, and of those two columns.
struct alignas(8) row_pair {
  float at[2];
};
struct alignas(16) row_square {
  row_pair of[2];
};

/// A place of the line of work (items.hpp).
struct line_place {
  std::int32_t head, sequence, index,
      start;  // an item: its head and sequence, which of theirs, and where it begins on the line
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
  std::int32_t spared;  // slots of the ring that stay empty, none or spare_slots(): items.hpp
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
  std::int32_t number, turn;  // parts that the team had before, and turns of rows_there
  line_place next;            // where the next one begins
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
  static constexpr int values_of_group = C.row_warps() * C.rows_of_group();
  static constexpr int weight_tiles = C.tile_keys() / swizzled_tile<weight<C>>::columns;

  shared_array<eight_rows> q;  // [chunks()][rows]; of e4m3 q_units in the same place, once they are made
  shared_array<eight_rows>
      weights;  // [row_groups()][weight_tiles][rows_of_group()], columns are a tile's keys
  shared_array<eight_rows> slots;
  shared_array<float> q_factors;  // [rows], of e4m3: q_units.hpp
  // rows of O, of the block's keys, if they are shown
  shared_array<four_floats> shown;       // [round_rows][shown_row()]
  shared_array<row_share> shown_shares;  // [round_rows]
  // the same of each block's keys, the block's columns, if they are given
  shared_array<row_pair> given;       // [team][columns][round_rows / 2]
  shared_array<row_pair> given_logs;  // [team][round_rows / 2]: of the sums of their weights, to base 2
  shared_array<float>
      of_warps;  // [2][row_groups()][row_warps()][rows_of_group()]: what warps tell their group
  shared_array<dealt_work> dealt;
  shared_array<part> parts;          // [num_warps], if they are kept
  shared_array<std::uint32_t> late;  // which of the waits was: wait_of
  shared_array<std::uint32_t> last;  // whether this block is the last of an item's
  shared_array<mbarrier> slot_barriers;
  shared_array<mbarrier> q_filled, q_free;
  shared_array<mbarrier> rows_there, rows_taken;  // team_rows.hpp, given_rows.hpp

  constexpr block_plan()
      : q{take<eight_rows>(C.chunks() * C.rows / 8)},
        weights{take<eight_rows>(weight_tiles * C.rows / 8)},
        slots{take<eight_rows>(C.slots * C.slot_rows() / 8)},
        q_factors{take<float>(C.e4m3 ? C.rows : 0)},
        shown{take<four_floats>(C.gives_rows() ? 0 : round_rows * C.shown_row())},
        shown_shares{take<row_share>(C.gives_rows() ? 0 : round_rows)},
        given{take<row_pair>(C.gives_rows() ? C.head_dim * round_rows / 2 : 0)},
        given_logs{take<row_pair>(C.gives_rows() ? most_team * round_rows / 2 : 0)},
        of_warps{take<float>(2 * C.row_groups() * values_of_group)},
        dealt{take<dealt_work>(1)},
        parts{take<part>(C.keeps_parts() ? num_warps : 0)},
        late{take<std::uint32_t>(1)},
        last{take<std::uint32_t>(1)},
        slot_barriers{take<mbarrier>(slot_pipeline<C>::num_mbars)},
        q_filled{take<mbarrier>(1)},
        q_free{take<mbarrier>(1)},
        rows_there{take<mbarrier>(1)},
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
  } else if constexpr (C.rows != 16 && (C.rows != 64 || C.e4m3)) {
    return "rows: not 16 or 64, or of e4m3 not 16";
  } else if constexpr (C.slots < larger(C.k_slots(), C.v_slots())) {
    return "slots: all of a product of a tile is in flight at once";
  } else {
    return block_plan<C>{}.bytes <= most_shared_bytes ? nullptr
                                                      : "slots: more shared memory than a block has";
  }
}

template <config C, class X>
BATON_FN tile<C> q_tile(X& x, int chunk) {
  return tile<C>{block_plan<C>{}.q(x)->bytes}.from_row(chunk * C.rows);
}
template <config C, class X>
BATON_FN swizzled_tile<weight<C>> weights_tile(X& x, int group, int index = 0) {
  constexpr int tiles = block_plan<C>::weight_tiles;
  return swizzled_tile<weight<C>>{block_plan<C>{}.weights(x)->bytes}.from_row((group * tiles + index) *
                                                                              C.rows_of_group());
}
/// Of the warps that make the same rows, which one this is.
template <config C, class X>
BATON_FN int row_warp(X& x) {
  if constexpr (C.row_groups() == 1) return x.warp() - loader_groups * group_warps;
  return x.warp_of_group();
}
/// They meet.
template <config C, class X>
BATON_FN void sync_row_warps(X& x, int group) {
  x.sync_groups(1 + group, consumer_groups / C.row_groups());
}
template <config C, class X>
BATON_FN std::byte* slot_at(X& x, int slot) {
  return block_plan<C>{}.slots(x)->bytes + slot * C.slot_bytes();
}

}  // namespace baton::decode_attention
