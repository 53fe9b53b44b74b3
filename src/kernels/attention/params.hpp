#pragma once
#include <cstdint>
#include <type_traits>

#include "kernels/attention/config.hpp"
#include "kernels/attention/pages.hpp"

namespace baton::attention_kernels {

/// What is seen of a sequence's keys: row i, counted from 0, sees keys i + keys - rows - left to i + keys - rows + right.
struct window {
  static constexpr int unbounded = 1 << 30;
  int left = unbounded, right = unbounded;
};

/// The blocks of rows of all heads and sequences, in the order in which the hardware hands them out.
struct item_order {
  int blocks = 0;              // of block_rows rows, of each sequence at most
  int heads = 0;               // of a sequence
  int all_heads = 0;           // of all sequences
  int heads_together = 1;      // whose keys fit into the device's cache at a time
  bool longest_first = false;  // later rows see more keys
  // What follows from these: each block of the kernel would work it out.
  int first_heads = 1;  // that go before the others
  divider by_blocks{}, by_heads{}, by_heads_together{}, by_first_heads{}, by_round{};

  /// Those that are left over go first: an end of few heads would be long items that most of the device waits for.
  constexpr item_order worked_out() const {
    item_order o = *this;
    const int rest = all_heads % larger(heads_together, 1);
    o.first_heads = rest > 0 ? rest : heads_together;
    o.by_blocks = divider{larger(blocks, 1)};
    o.by_heads = divider{larger(heads, 1)};
    o.by_heads_together = divider{larger(heads_together, 1)};
    o.by_first_heads = divider{larger(o.first_heads, 1)};
    o.by_round = divider{larger(heads_together * blocks, 1)};
    return o;
  }
};

/// What the kernel reads and writes: passed by value as a __grid_constant__.
struct params {
  tensor_map q, k, v;    // boxes of a chunk of 64 columns by 64 rows; of a slot
  tensor_map v_turned;   // a slot whose row 8 i + 2 j + b is key 8 j + 2 i + b. Where there are pairs
  tensor_map out_boxes;  // of a chunk of 64 columns by a warp's rows
  void* out;
  float* lse;                                   // [heads, all rows]; null: it is not asked for
  const float* sinks;                           // [heads]; null: none
  const std::int32_t *first_rows, *first_keys;  // [sequences + 1]; null: each has max_rows, max_keys
  std::int64_t out_row;                         // from one row to the next, in elements
  item_order order;
  int max_rows, max_keys, all_rows, all_keys;
  divider by_heads_a_kv_head;
  int head_dim;
  window sees;
  float scale;      // of a score, to base 2: with a soft cap, of its hyperbolic tangent
  float cap_scale;  // with a soft cap: of what that is taken
};

/// The same where keys are in pages: k, v and v_turned are of the pages' matrix, in boxes of keys that lie in one page.
struct paged_params : params {
  tensor_map k_ahead, v_ahead;  // boxes that the device's cache is asked for: of ahead_chunks
  key_pages pages;
  std::int32_t k_keys;            // of a box of K: of a whole slot, where pages have those
  bool has_whole_k, has_whole_v;  // a box is a slot
  bool lse_by_sequence;           // lse is [sequences, heads, max_rows]
};
template <config C>
using kernel_params = std::conditional_t<C.paged, paged_params, params>;

/// Whether V's rows of tile n come in the order in which lanes hold P, which is one of 32 keys.
template <config C>
BATON_FN bool is_turned(const params& p, const tile_numbers& plain, int n) {
  if constexpr (!C.paired())
    return false;
  else if constexpr (C.paged)
    return static_cast<const kernel_params<C>&>(p).pages.box_bits == most_box_bits && plain.have(n);
  else
    return plain.have(n);
}

/// Of K and V of heads that are worked on at a time. Measured (docs/decisions/0040): with more, heads of 512 find less in the
/// device's cache; with half of it, heads of 256 leave SMs without an item.
inline constexpr std::int64_t cached_bytes = std::int64_t{16} << 20;

/// Of a call that why_not_on_cuda takes, whose blocks are counted in 31 bits.
template <class T>
item_order order_of(const operands<T>& asked) {
  const int all_heads = asked.heads * asked.batch;
  const std::int64_t head_bytes = std::int64_t{2} * asked.k_len * asked.head_dim * std::int64_t{sizeof(T)};
  const std::int64_t that_fit =
      larger<std::int64_t>(1, cached_bytes / larger<std::int64_t>(head_bytes, 1)) * asked.group();
  const item_order o{.blocks = ceil_div(asked.q_len, block_rows),
                     .heads = asked.heads,
                     .all_heads = all_heads,
                     .heads_together = static_cast<int>(smaller<std::int64_t>(that_fit, all_heads)),
                     .longest_first = asked.sees.right != visibility::none};
  return o.worked_out();
}

/// Keys and values of a box of K or V that is copied into a slot.
struct slot_box {
  int rows, chunks;
};
/// Of a slot of `keys` keys, of which `together` lie in one page, or all in rows.
constexpr slot_box slot_box_of(int keys, int together) {
  return {together, together == keys ? slot_rows / keys : 1};
}
/// Columns of a box that the device's cache is asked for, where keys are in pages.
inline constexpr int ahead_chunks = 4;

/// Heads that lie in rows beside each other, `row` values from one row to the next.
template <class T>
struct rows_of_heads {
  const T* at;
  std::int64_t row, rows;
  int heads, head_dim;
};
/// Boxes of chunks of 64 columns; where there are no rows, of others, for which nobody asks. All heads' chunks are one dimension,
/// but where heads may be narrower than the kernel's: then chunks that a head does not have are zeros.
template <config C, class T>
tensor_boxes chunked_boxes(const rows_of_heads<T>& of, const T* else_at, slot_box box) {
  constexpr std::int64_t bytes = sizeof(T);
  const std::int64_t chunks = of.head_dim / tile<C>::columns, head = of.head_dim * bytes;
  return {.base = of.rows > 0 ? of.at : else_at,
          .element_bytes = sizeof(T),
          .extents = {tile<C>::columns, larger<std::int64_t>(of.rows, 1),
                      C.pads() ? chunks : of.heads * chunks, C.pads() ? of.heads : 1, 1},
          .strides = {of.row * bytes, tile<C>::row_bytes, C.pads() ? head : 16, 16},
          .box = {tile<C>::columns, box.rows, box.chunks, 1, 1}};
}

/// k and v: a tensor's rows, or those of the pages' matrix.
template <config C, class T, class MakeMap>
void map_keys(kernel_params<C>& p, const operands<T>& asked, MakeMap make_map) {
  std::int64_t rows = asked.total_k;
  int heads = asked.kv_heads;  // that lie in a row
  int k_keys = C.block_keys(), v_keys = C.v_slot_keys();
  if constexpr (C.paged) {
    rows = p.pages.rows;
    if (p.pages.head_columns == 0) heads = 1;
    v_keys = 1 << p.pages.box_bits;
    if (asked.page_size % k_keys != 0) k_keys = v_keys;
  }
  const auto boxes = [&](const T* at, std::int64_t row, slot_box box) {
    return chunked_boxes<C, T>({at, row, rows, heads, asked.head_dim}, asked.q, box);
  };
  p.k = make_map(boxes(asked.k, asked.k_row, slot_box_of(C.block_keys(), k_keys)));
  p.v = make_map(boxes(asked.v, asked.v_row, slot_box_of(C.v_slot_keys(), v_keys)));
  if constexpr (C.paged) {
    p.k_keys = k_keys;
    p.has_whole_k = k_keys == C.block_keys();
    p.has_whole_v = v_keys == C.v_slot_keys();
  }
  if constexpr (C.paged && C.tiles_ahead > 0) {
    p.k_ahead = make_map(boxes(asked.k, asked.k_row, {v_keys, ahead_chunks}));
    p.v_ahead = make_map(boxes(asked.v, asked.v_row, {v_keys, ahead_chunks}));
  }
  if constexpr (C.paired()) {
    tensor_boxes turned = boxes(asked.v, asked.v_row, {2, slot_rows / C.v_slot_keys()});
    const std::int64_t row = turned.strides[0];
    turned.extents[2] = turned.extents[3] = 4, turned.extents[4] = heads * C.chunks();
    turned.strides[1] = 8 * row, turned.strides[2] = 2 * row, turned.strides[3] = tile<C>::row_bytes;
    turned.box[2] = turned.box[3] = 4, turned.box[4] = slot_rows / C.v_slot_keys();
    p.v_turned = make_map(turned);
  }
}

/// `make_map(tensor_boxes)` is the device's.
template <config C, class T, class MakeMap>
kernel_params<C> params_of(const operands<T>& asked, MakeMap make_map) {
  constexpr float log2_e = 1.4426950408889634f;
  kernel_params<C> p{};
  if constexpr (C.paged) {
    p.pages = pages_of(asked);
    p.lse_by_sequence = asked.lse_by_sequence;
  }
  p.q = make_map(chunked_boxes<C, T>({asked.q, asked.q_row, asked.total_q, asked.heads, asked.head_dim},
                                     asked.q, {group_rows, 1}));
  p.out_boxes =
      make_map(chunked_boxes<C, T>({asked.out, asked.out_row, asked.total_q, asked.heads, asked.head_dim},
                                   asked.out, {group_warp_rows, 1}));
  map_keys<C>(p, asked, make_map);
  p.out = asked.out;
  p.lse = asked.lse;
  p.sinks = asked.sinks;
  p.first_rows = asked.cu_seqlens_q;
  p.first_keys = asked.cu_seqlens_k;
  p.out_row = asked.out_row;
  p.order = order_of(asked);
  p.max_rows = asked.q_len;
  p.max_keys = asked.k_len;
  p.all_rows = asked.total_q;
  p.all_keys = asked.total_k;
  p.by_heads_a_kv_head = divider{asked.group()};
  p.head_dim = asked.head_dim;
  if (asked.sees.left != visibility::none) p.sees.left = smaller(asked.sees.left, window::unbounded);
  if (asked.sees.right != visibility::none) p.sees.right = smaller(asked.sees.right, window::unbounded);
  p.scale = (asked.softcap > 0 ? asked.softcap : asked.scale) * log2_e;
  p.cap_scale = asked.softcap > 0 ? asked.scale / asked.softcap : 0.0f;
  return p;
}

/// Where the log-sum-exps of an item's rows stand.
template <config C>
BATON_FN float* lse_of(const params& p, const item& w) {
  if constexpr (C.paged) {
    if (static_cast<const kernel_params<C>&>(p).lse_by_sequence) {
      const int sequence = w.row / p.max_rows, row = w.row % p.max_rows;
      return p.lse + (std::int64_t{sequence} * p.order.heads + w.head) * p.max_rows + row;
    }
  }
  return p.lse + std::int64_t{w.head} * p.all_rows + w.row;
}

}  // namespace baton::attention_kernels
