#pragma once
#include <cstdint>

#include "kernels/attention/config.hpp"
#include "kernels/attention/operands.hpp"

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
};

/// What the kernel reads and writes: passed by value as a __grid_constant__.
struct params {
  tensor_map q, k, v;   // boxes of a chunk of 64 columns by 64 rows; of a slot
  tensor_map v_turned;  // a slot whose row 8 i + 2 j + b is key 8 j + 2 i + b. Where there are pairs
  const void* q_rows;   // the same memory as q
  void* out;
  float* lse;                                   // [heads, all rows]; null: it is not asked for
  const float* sinks;                           // [heads]; null: none
  const std::int32_t *first_rows, *first_keys;  // [sequences + 1]; null: each has max_rows, max_keys
  std::int64_t q_row, out_row;                  // from one row to the next, in elements
  item_order order;
  int max_rows, max_keys, all_rows, all_keys;
  int heads_a_kv_head;
  window sees;
  float scale;      // of a score, to base 2: with a soft cap, of its hyperbolic tangent
  float cap_scale;  // with a soft cap: of what that is taken
};

/// Keys times heads whose K and V the device's cache holds beside what else passes through it.
inline constexpr int cached_keys = 16384;

template <class T>
item_order order_of(const operands<T>& asked) {
  return {.blocks = ceil_div(asked.q_len, block_rows),
          .heads = asked.heads,
          .all_heads = asked.heads * asked.batch,
          .heads_together = larger(1, cached_keys / larger(asked.k_len, 1)) * asked.group(),
          .longest_first = asked.sees.right != visibility::none};
}

/// `make_map(tensor_boxes)` is the device's.
template <config C, class T, class MakeMap>
params params_of(const operands<T>& asked, MakeMap make_map) {
  constexpr float log2_e = 1.4426950408889634f;
  constexpr int columns = tile<C>::columns, bytes = sizeof(T);
  const auto boxes = [&](const T* at, std::int64_t row, int rows, int heads, int box_rows, int box_chunks) {
    return make_map(tensor_boxes{.base = at,
                                 .element_bytes = bytes,
                                 .extents = {columns, rows, std::int64_t{heads} * C.chunks(), 1, 1},
                                 .strides = {row * bytes, tile<C>::row_bytes, 16, 16},
                                 .box = {columns, box_rows, box_chunks, 1, 1}});
  };
  params p{};
  p.q = boxes(asked.q, asked.q_row, asked.total_q, asked.heads, group_rows, 1);
  p.k = boxes(asked.k, asked.k_row, asked.total_k, asked.kv_heads, block_keys, slot_rows / block_keys);
  p.v = boxes(asked.v, asked.v_row, asked.total_k, asked.kv_heads, v_slot_keys, slot_rows / v_slot_keys);
  if constexpr (C.paired())
    p.v_turned = make_map(
        tensor_boxes{.base = asked.v,
                     .element_bytes = bytes,
                     .extents = {columns, asked.total_k, 4, 4, std::int64_t{asked.kv_heads} * C.chunks()},
                     .strides = {asked.v_row * bytes, 8 * asked.v_row * bytes, 2 * asked.v_row * bytes,
                                 tile<C>::row_bytes},
                     .box = {columns, 2, 4, 4, slot_rows / v_slot_keys}});
  p.q_rows = asked.q;
  p.out = asked.out;
  p.lse = asked.lse;
  p.sinks = asked.sinks;
  p.first_rows = asked.cu_seqlens_q;
  p.first_keys = asked.cu_seqlens_k;
  p.q_row = asked.q_row;
  p.out_row = asked.out_row;
  p.order = order_of(asked);
  p.max_rows = asked.q_len;
  p.max_keys = asked.k_len;
  p.all_rows = asked.total_q;
  p.all_keys = asked.total_k;
  p.heads_a_kv_head = asked.group();
  if (asked.sees.left != visibility::none) p.sees.left = smaller(asked.sees.left, window::unbounded);
  if (asked.sees.right != visibility::none) p.sees.right = smaller(asked.sees.right, window::unbounded);
  p.scale = (asked.softcap > 0 ? asked.softcap : asked.scale) * log2_e;
  p.cap_scale = asked.softcap > 0 ? asked.scale / asked.softcap : 0.0f;
  return p;
}

}  // namespace baton::attention_kernels
