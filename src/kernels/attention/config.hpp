#pragma once
// What forward attention decides before it runs. A structural type: one value is one instantiation.
#include <type_traits>

#include "base/macros.hpp"
#include "base/math.hpp"
#include "exec/group_mma.hpp"
#include "exec/shared_plan.hpp"
#include "protocol/staged_pipeline.hpp"

namespace baton::attention_kernels {

/// Who works in a block: so many groups. Registers of a thread: config.
inline constexpr int loader_groups = 1, consumer_groups = 2;

/// Rows of Q that a block holds, those of its two consumer groups, and the most columns of O.
inline constexpr int block_rows = consumer_groups * group_rows, most_block_columns = 256;
inline constexpr int num_warps = (loader_groups + consumer_groups) * group_warps;
inline constexpr int consumer_warps = consumer_groups * group_warps;

/// A slot of the ring: 64 keys by 128 columns of K, or 32 keys by 256 columns of V, or of narrow heads 128 keys by 64 columns and
/// 64 by 128, or, before any of these, 64 columns of Q's rows; all as tiles of 64 columns.
inline constexpr int slot_rows = 128;  // of 128 bytes
static_assert(slot_rows == block_rows);
inline constexpr int slot_bytes = slot_rows * operand_tile::row_bytes;

struct config {
  int head_dim =
      512;        // 128, 256: a block alone; 512: a pair of blocks, each with half of O's columns and of a
                  // tile's keys
  int slots = 7;  // of the ring
  int q_in_registers = 2;  // chunks of 64 columns of Q that consumers keep in registers
  bool fp16 = false;       // what q, k, v and O are of; else bf16
  bool softcap = false;
  int loader_registers = 24;          // of a thread; consumers have what is left
  int tiles_ahead = 2;                // that the device's cache is asked for; 0: it is not
  scope swap_reach = scope::cluster;  // of waits for the other block
  bool paged = false;                 // keys are in pages, not in rows
  friend constexpr bool operator==(const config&, const config&) = default;

  constexpr int consumer_registers() const {
    const int all = registers_at_start(loader_groups + consumer_groups) * (loader_groups + consumer_groups);
    return (all - loader_groups * loader_registers) / consumer_groups / 8 * 8;
  }
  constexpr int blocks() const { return head_dim / block_columns(); }
  /// Of O, that a block has.
  constexpr int block_columns() const { return smaller(head_dim, most_block_columns); }
  /// That a block scores of each tile: narrow heads have room for more.
  constexpr int block_keys() const { return head_dim == 128 ? 128 : 64; }
  constexpr int v_slot_keys() const { return block_keys() / 2; }
  /// Heads may have fewer columns than the kernel: copies fill the others with zeros.
  constexpr bool pads() const { return head_dim == 128; }
  constexpr bool paired() const { return blocks() == 2; }
  constexpr int tile_keys() const { return blocks() * block_keys(); }
  constexpr int chunks() const { return head_dim / operand_tile::columns; }
  constexpr int q_in_memory() const { return chunks() - q_in_registers; }
  /// Of Q that lies in memory, as many chunks as a slot of K has.
  constexpr int q_pieces() const { return q_in_memory() / slot_chunks(); }
  /// Slots of a tile: of K, and of V, its own keys' first.
  constexpr int slot_chunks() const { return slot_rows / block_keys(); }  // of K
  constexpr int k_slots() const { return chunks() / slot_chunks(); }
  /// In front of the first tile's: Q on its way into registers, a chunk of both groups' rows each.
  constexpr int q_slots() const { return q_in_registers; }
  /// What load_first fills: these, and K's of the first tile where a pair's keys are in rows.
  constexpr int first_slots() const { return q_slots() + (paired() && !paged ? k_slots() : 0); }
  constexpr int v_slots() const { return 2 * blocks(); }
};

template <config C>
using value = std::conditional_t<C.fp16, float16, bfloat16>;
template <config C>
using tile = swizzled_tile<value<C>>;

/// Tiles by their numbers: 0 is the first that an item sees.
struct tile_numbers {
  std::int32_t first, end;
  BATON_FN bool have(int number) const { return number >= first && number < end; }
};

/// Up to block_rows rows of one head.
struct item {
  std::int32_t head, kv_head;
  std::int32_t row, rows;  // the first in all sequences' rows, how many there are in this item
  std::int32_t key, keys;  // the sequence's first in all sequences' keys, how many it has (items.hpp)
  std::int32_t diagonal;   // the key that stands beside the item's first row
  std::int32_t first_key, end_key;  // what of the sequence's keys some row of the item sees
  std::int32_t first_tile, tiles;   // that have some of those
  tile_numbers plain;               // of which every row sees every key

  BATON_FN int tile_of(int number) const { return first_tile + number; }
  /// Whether the tile of that number has keys that no row of the item sees: its first or last.
  BATON_FN bool has_unseen(int number, int tile_keys) const {
    return (number == 0 && first_tile * tile_keys < first_key) ||
           (number == tiles - 1 && (first_tile + tiles) * tile_keys > end_key);
  }
};

/// At block scope: the copy engine writes slots and products read them.
template <config C>
using slot_pipeline = staged_pipeline<C.slots, 1, 1, scope::block>;

/// A block's shared memory.
template <config C>
struct block_plan : shared_plan {
  shared_array<eight_rows>
      q;  // [consumer groups][q_in_memory()][64 rows]; in the end O's rows on their way out
  shared_array<eight_rows> p;  // [consumer groups][64 rows]: P of the other block's keys
  shared_array<eight_rows> slots;
  shared_array<item> kept;
  shared_array<std::uint32_t> late;  // which of the consumers' waits was: wait_of
  shared_array<float> row_values;    // [2][block_rows]: what the other block said of rows
  shared_array<mbarrier> slot_barriers;
  shared_array<mbarrier> q_filled;  // [q_pieces()]
  shared_array<mbarrier>
      landed;  // [2][v_slots()]: V of the first and of the last tile, to be cleared of what is not meant
  shared_array<mbarrier> p_filled, p_free;   // [consumer groups]
  shared_array<mbarrier> row_values_filled;  // [2][consumer_warps]

  static constexpr int tile_units = group_rows / 8;
  constexpr block_plan()
      : q{take<eight_rows>(consumer_groups * C.q_in_memory() * tile_units)},
        p{take<eight_rows>(C.paired() ? consumer_groups * tile_units : 0)},
        slots{take<eight_rows>(C.slots * slot_rows / 8)},
        kept{take<item>(1)},
        late{take<std::uint32_t>(1)},
        row_values{take<float>(C.paired() ? 2 * block_rows : 0)},
        slot_barriers{take<mbarrier>(slot_pipeline<C>::num_mbars)},
        q_filled{take<mbarrier>(C.q_pieces())},
        landed{take<mbarrier>(2 * C.v_slots())},
        p_filled{take<mbarrier>(C.paired() ? consumer_groups : 0)},
        p_free{take<mbarrier>(C.paired() ? consumer_groups : 0)},
        row_values_filled{take<mbarrier>(C.paired() ? 2 * consumer_warps : 0)} {}
};

/// Null if the kernel can run C, otherwise the first reason it cannot.
template <config C>
consteval const char* why_not() {
  if constexpr (C.head_dim != 128 && C.head_dim != 256 && C.head_dim != 512) {
    return "head_dim: not 128, 256 or 512";
  } else if constexpr (constexpr role_groups roles[] = {{loader_groups, C.loader_registers},
                                                        {consumer_groups, C.consumer_registers()}};
                       baton::why_not(roles) != nullptr) {
    return baton::why_not(roles);
  } else if constexpr (C.q_in_registers < 0 || C.q_in_memory() < C.block_columns() / operand_tile::columns) {
    return "q_in_registers: O leaves through a group's Q";
  } else if constexpr (C.q_in_registers % C.slot_chunks() != 0) {
    return "q_in_registers: what is left of Q comes in pieces as large as a slot of K";
  } else if constexpr (C.slots < C.first_slots()) {
    return "slots: Q and K of the first tile are asked for before any slot becomes free";
  } else if constexpr (C.slots < C.k_slots() + 2) {
    return "slots: the first two pieces of P * V and all of Q * K^T are in flight at once";
  } else {
    return block_plan<C>{}.bytes <= most_shared_bytes ? nullptr
                                                      : "slots: more shared memory than a block has";
  }
}

template <config C, class X>
BATON_FN tile<C> q_tile(X& x, int group, int chunk = 0) {
  return tile<C>{block_plan<C>{}.q(x)->bytes}.from_row((group * C.q_in_memory() + chunk) * group_rows);
}
template <config C, class X>
BATON_FN tile<C> p_tile(X& x, int group) {
  return tile<C>{block_plan<C>{}.p(x)->bytes}.from_row(group * group_rows);
}
template <config C, class X>
BATON_FN tile<C> slot_tile(X& x, int slot) {
  return tile<C>{block_plan<C>{}.slots(x)->bytes}.from_row(slot * slot_rows);
}

}  // namespace baton::attention_kernels
