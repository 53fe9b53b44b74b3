#pragma once
// Which rows a block or a pair of blocks makes, and the tiles of keys that these see.
#include "exec/collectives.hpp"
#include "kernels/attention/params.hpp"

namespace baton::attention_kernels {

/// Bounds of what row `r` of an item sees.
BATON_FN int first_seen(const params& p, const item& w, int r) {
  return larger(w.diagonal + r - p.sees.left, 0);
}
BATON_FN int end_seen(const params& p, const item& w, int r) {
  return smaller(w.diagonal + r + p.sees.right + 1, w.keys);
}

/// Which block of rows of which head of all sequences the n-th item is.
struct item_place {
  int head_of_all, block;
};
BATON_FN item_place place_of(const item_order& o, int n) {
  if (!o.longest_first) {
    const int head = o.by_blocks.quotient(n);
    return {head, n - head * o.blocks};
  }
  const int first_items = o.first_heads * o.blocks, together = o.heads_together * o.blocks;
  const bool is_first = n < first_items;
  const int round = is_first ? 0 : o.by_round.quotient(n - first_items);  // behind the first
  const int within = is_first ? n : n - first_items - round * together;
  const int head = is_first ? 0 : o.first_heads + round * o.heads_together;
  const int nth = is_first ? o.by_first_heads.quotient(within) : o.by_heads_together.quotient(within);
  return {head + within - nth * (is_first ? o.first_heads : o.heads_together), o.blocks - 1 - nth};
}

/// The tiles of an item whose rows and keys are known.
template <config C>
BATON_FN void find_tiles(const params& p, item& w) {
  constexpr int keys = C.tile_keys();
  w.first_key = first_seen(p, w, 0), w.end_key = end_seen(p, w, w.rows - 1);
  w.first_tile = w.first_key / keys;
  w.tiles = w.first_key < w.end_key ? ceil_div(w.end_key, keys) - w.first_tile : 0;
  const int end_plain = larger(end_seen(p, w, 0), 0) / keys;
  const int first_plain = ceil_div(first_seen(p, w, block_rows - 1), keys);
  w.plain = {first_plain - w.first_tile, end_plain - w.first_tile};
}

/// The keys of a sequence, as the device says; in pages numbered in the sequence itself.
template <config C, class X>
BATON_FN key_range keys_said(X& x, const kernel_params<C>& p, int sequence) {
  if constexpr (C.paged) {
    return {0, x.read(p.pages.lengths + sequence)};
  } else {
    key_range keys{sequence * p.max_keys, sequence * p.max_keys + p.max_keys};
    if (p.first_keys != nullptr)
      keys = {x.read(p.first_keys + sequence), x.read(p.first_keys + sequence + 1)};
    return keys;
  }
}
/// The same bounded. In pages, `key` is the first of the sequence's entries in their table.
template <config C>
BATON_FN void keep_keys(const kernel_params<C>& p, int sequence, key_range said, item& w) {
  if constexpr (C.paged) {
    w.key = p.pages.first_entry(sequence), w.keys = p.pages.bounded_length(said.end);
  } else {
    w.key = larger(said.begin, 0), w.keys = larger(smaller(said.end, p.all_keys) - w.key, 0);
  }
}

/// Number `n` of the items: rows is 0 or less if its sequence has none there.
template <config C, class X>
BATON_FN item item_of(X& x, const kernel_params<C>& p, int n) {
  const item_place at = place_of(p.order, n);
  const int sequence = p.order.by_heads.quotient(at.head_of_all);
  item w{};
  w.head = at.head_of_all - sequence * p.order.heads;
  w.kv_head = p.by_heads_a_kv_head.quotient(w.head);
  int row = sequence * p.max_rows, end_row = row + p.max_rows;
  if (p.first_rows != nullptr)
    row = x.read(p.first_rows + sequence), end_row = x.read(p.first_rows + sequence + 1);
  const key_range keys = keys_said<C>(x, p, sequence);
  // Lengths that make no sense reach no memory but the tensors'.
  row = larger(row, 0), end_row = smaller(end_row, p.all_rows);
  keep_keys<C>(p, sequence, keys, w);
  const int first = at.block * block_rows;
  w.diagonal = first + w.keys - (end_row - row);
  w.row = row + first, w.rows = smaller(end_row - w.row, block_rows);
  find_tiles<C>(p, w);
  return w;
}

/// The block's item, which lies in shared memory: who reads of it what he needs keeps no registers for it.
template <config C, class X>
BATON_FN void keep_item(X& x, const item& w) {
  const auto* from = reinterpret_cast<const std::int32_t*>(&w);
  auto* to = reinterpret_cast<std::int32_t*>(block_plan<C>{}.kept(x));
  for (int i = 0; i < static_cast<int>(sizeof w / 4); ++i) x.write(to + i, from[i]);
}
template <config C, class X>
BATON_FN item kept_item(X& x) {
  const item* at = block_plan<C>{}.kept(x);
  return {
      x.read(&at->head),       x.read(&at->kv_head),   x.read(&at->row),
      x.read(&at->rows),       x.read(&at->key),       x.read(&at->keys),
      x.read(&at->diagonal),   x.read(&at->first_key), x.read(&at->end_key),
      x.read(&at->first_tile), x.read(&at->tiles),     {x.read(&at->plain.first), x.read(&at->plain.end)}};
}
/// Where V of the first or the last tile lands that has keys which no row sees.
template <config C, class X>
BATON_FN mbarrier* landed_of(X& x, int number) {
  return block_plan<C>{}.landed(x) + (number == 0 ? 0 : C.v_slots());
}

/// What a consumer warp keeps of its item.
struct consumer_item {
  int first_row;  // of its 16, in the item
  int tiles;
  tile_numbers plain;

  BATON_FN int group() const { return first_row / group_rows; }
  BATON_FN int warp() const { return first_row / group_warp_rows; }
};
template <class X>
BATON_FN consumer_item consumer_item_of(X& x, const item& w) {
  return {known_to_all(x, x.warp() - loader_groups * group_warps) * group_warp_rows,
          known_to_all(x, w.tiles),
          {known_to_all(x, w.plain.first), known_to_all(x, w.plain.end)}};
}

}  // namespace baton::attention_kernels
