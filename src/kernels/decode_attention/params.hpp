#pragma once
#include <cstdint>
#include <limits>
#include <numeric>

#include "kernels/attention/operands.hpp"
#include "kernels/decode_attention/config.hpp"

namespace baton::decode_attention {

using attention_kernels::operands;
using attention_kernels::visibility;

/// Keys that the line of work counts as one: a multiple of piece_keys.
inline constexpr int unit_keys = 128, unit_pieces = unit_keys / piece_keys;
/// An item of no more units is not cut: its merge would take longer than reading them.
inline constexpr int short_units = 16;
/// Of a launch, at most: as many as there are words to sign in the caller's memory.
inline constexpr int most_blocks = 160;

/// What the kernel reads and writes: passed by value as a __grid_constant__.
struct params {
  tensor_map q;     // boxes of box_tokens rows of a group of heads by a chunk of 64 columns
  tensor_map k, v;  // boxes of 16 keys, eight by eight, by the chunks of a slot; by all of a head's
  void* out;
  float* lse;                      // null: it is not asked for
  const float* sinks;              // [heads]; null: none
  const std::int32_t* first_rows;  // [sequences + 1]; null: each has max_rows
  const std::int32_t* lengths;     // [sequences]: keys
  const std::int32_t* page_table;  // [sequences, max_pages]
  std::uint32_t* signed_parts;     // [most_blocks]; 0 before and after
  float* partial_rows;     // [2 blocks][rows_of_part][head_dim / team]: of O, as they are put together
  float* partial_weights;  // [2 blocks][rows_of_part][2 or 1]: what they weigh
  std::int64_t out_row;    // from one row to the next, in elements
  divider page_size, group;
  int sequences, heads, kv_heads, heads_of_group;
  int max_rows, all_rows, max_keys, max_pages;
  int block_tokens;  // of a sequence that one item has
  int row_blocks;    // of a sequence, each of block_tokens tokens
  int box_rows;      // of q that are loaded for an item
  int page_steps,
      head_steps;        // from a page to the next, from a head: in steps of the fifth dimension of k and v
  int short_units;       // see above
  bool lse_by_sequence;  // [sequences, heads, max_rows] instead of [heads, all_rows]
  int left, right;       // what a row sees: keys before and behind its own, or unbounded
  float scale;           // of a score, to base 2: with a soft cap, of its hyperbolic tangent
  float cap_scale;       // with a soft cap: of what that is taken; 0: there is none
  const float *k_descale, *v_descale;  // of e4m3; null: 1
  bool descale_by_head;                // [kv_heads] instead of [1]

  static constexpr int unbounded = 1 << 30;
  BATON_FN int rows_of_item() const { return block_tokens * heads_of_group; }
  /// Of a part in the caller's memory, where given rows lie two by two.
  BATON_FN int rows_of_part() const { return align_up(rows_of_item(), 2); }
  BATON_FN int items_of_sequence() const { return kv_heads * row_blocks; }
};

/// Tokens of an item: as many as fit, with all heads of their group, into the 64 rows of a product; of e4m3 into the 16 that keys
/// are widened for at once.
template <class Asked>
constexpr int block_tokens(const Asked& asked) {
  const int rows = asked.is_e4m3 ? 16 : group_rows;
  return larger(smaller(asked.q_len, rows / asked.group()), 1);
}

/// Pages and heads of the cache are one dimension of copies, whose step, in elements, both are multiples of.
template <class Asked>
constexpr std::int64_t step_of_cache(const Asked& asked) {
  return asked.kv_heads == 1 ? larger<std::int64_t>(asked.page_step, 1)
                             : std::gcd(asked.page_step, asked.kv_head_step);
}
/// How many of those there are, of a cache with pages.
template <class Asked>
constexpr std::int64_t cache_steps(const Asked& asked) {
  const std::int64_t last =
      (asked.num_pages - 1) * asked.page_step + (asked.kv_heads - 1) * asked.kv_head_step;
  return last / step_of_cache(asked) + 1;
}

/// Of numbers that are not negative, or 2^32 if it is more.
constexpr std::int64_t bounded_product(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t most = std::int64_t{1} << 32;
  return b > 0 && a > most / b ? most : smaller(a * b, most);
}
/// Of sequences that are all as long as the longest.
template <class Asked>
constexpr std::int64_t most_items(const Asked& asked) {
  return bounded_product(std::int64_t{asked.batch} * asked.kv_heads,
                         ceil_div(larger(asked.q_len, 1), block_tokens(asked)));
}

/// Of the configuration that an item's rows take.
template <class Asked>
constexpr int rows_of(const Asked& asked) {
  return block_tokens(asked) * asked.group() <= 16 ? 16 : 64;
}

/// Blocks that read the keys of an item together, and add up what they made in each other's memory. With many items each block
/// has its own.
template <class Asked>
constexpr int team_of(const Asked& asked) {
  const std::int64_t items = most_items(asked);
  return items <= 16 ? 8 : items <= 80 ? 2 : 1;
}

/// The caller's memory: signed words first, whatever the sizes, as they are left as they were found.
struct scratch_layout {
  std::size_t weights = 0, rows = 0, bytes = 0;
};
template <class Asked>
constexpr scratch_layout scratch_of(const Asked& asked, int blocks = most_blocks) {
  scratch_layout s;
  if (ceil_div(asked.k_len, unit_keys) + 1 <= short_units) return s;
  const auto rows = static_cast<std::size_t>(align_up(block_tokens(asked) * asked.group(), 2)),
             places = 2 * static_cast<std::size_t>(blocks);
  s.weights = most_blocks * sizeof(std::uint32_t);
  s.rows = align_up(s.weights + places * rows * sizeof(row_share), std::size_t{256});
  s.bytes =
      s.rows + places * rows * static_cast<std::size_t>(asked.head_dim) / team_of(asked) * sizeof(float);
  return s;
}

/// `make_map(tensor_boxes)` is the device's.
template <config C, class Asked, class MakeMap>
params params_of(const Asked& asked, void* scratch, MakeMap make_map) {
  static_assert(C.e4m3 == Asked::is_e4m3);
  constexpr float log2_e = 1.4426950408889634f;
  constexpr int columns = tile<C>::columns, bytes = sizeof(typename Asked::value);
  const int tokens = block_tokens(asked), group = asked.group();
  const std::int64_t step = step_of_cache(asked);
  const auto cache = [&](const void* at, int box_chunks) {
    constexpr int cache_columns = cache_tile<C>::columns, cache_bytes = sizeof(typename Asked::cache);
    const bool is_empty = asked.num_pages == 0 || asked.max_pages == 0;
    return make_map(tensor_boxes{
        .base = is_empty ? asked.q : at,
        .element_bytes = cache_bytes,
        .extents = {cache_columns, 8, C.cache_chunks(), asked.page_size / 8,
                    is_empty ? 1 : cache_steps(asked)},
        .strides = {asked.k_row * cache_bytes, tile<C>::row_bytes, 8 * asked.k_row * cache_bytes,
                    step * cache_bytes},
        .box = {cache_columns, 8, box_chunks, piece_keys / 8, 1},
        .fetch_bytes = 128});  // of 256, 5 % more time goes by where memory is what is waited for
  };
  params p{};
  p.q = make_map(tensor_boxes{.base = asked.q,
                              .element_bytes = bytes,
                              .extents = {columns, asked.heads, asked.total_q, C.chunks(), 1},
                              .strides = {C.head_dim * bytes, asked.q_row * bytes, tile<C>::row_bytes, 16},
                              .box = {columns, group, tokens, 1, 1}});
  p.k = cache(asked.k, C.k_slot_chunks());
  p.v = cache(asked.v, C.cache_chunks());
  p.out = asked.out;
  p.lse = asked.lse;
  p.sinks = asked.sinks;
  p.first_rows = asked.cu_seqlens_q;
  p.lengths = asked.seqlens_k;
  p.page_table = asked.page_table;
  auto* const at = static_cast<std::byte*>(scratch);
  const scratch_layout layout = scratch_of(asked);
  p.signed_parts = reinterpret_cast<std::uint32_t*>(at);
  p.partial_weights = reinterpret_cast<float*>(at + layout.weights);
  p.partial_rows = reinterpret_cast<float*>(at + layout.rows);
  p.out_row = asked.out_row;
  p.page_size = divider{asked.page_size}, p.group = divider{group};
  p.sequences = asked.batch, p.heads = asked.heads, p.kv_heads = asked.kv_heads, p.heads_of_group = group;
  p.max_rows = asked.q_len, p.all_rows = asked.total_q;
  p.max_keys = asked.num_pages == 0 ? 0 : asked.k_len, p.max_pages = asked.max_pages;
  p.block_tokens = tokens, p.row_blocks = ceil_div(asked.q_len, tokens), p.box_rows = tokens * group;
  p.page_steps = static_cast<int>(asked.page_step / step);
  p.head_steps = asked.kv_heads == 1 ? 0 : static_cast<int>(asked.kv_head_step / step);
  p.short_units = short_units;
  p.lse_by_sequence = asked.lse_by_sequence;
  p.k_descale = asked.k_descale, p.v_descale = asked.v_descale;
  p.descale_by_head = asked.descale_by_head;
  const auto bounded = [](int keys) {
    return keys == visibility::none ? params::unbounded : smaller(keys, params::unbounded);
  };
  p.left = bounded(asked.sees.left), p.right = bounded(asked.sees.right);
  p.scale = (asked.softcap > 0 ? asked.softcap : asked.scale) * log2_e;
  // Above 0, as the kernel is told by it that there is a cap.
  p.cap_scale =
      asked.softcap > 0 ? larger(asked.scale / asked.softcap, std::numeric_limits<float>::min()) : 0.0f;
  return p;
}

}  // namespace baton::decode_attention
