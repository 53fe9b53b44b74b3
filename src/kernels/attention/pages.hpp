#pragma once
// Keys in pages as the copy engine takes them: the cache is one matrix, whose rows are as far apart as two keys of a page.
//
//   layout   a row of the matrix                                  columns of a head
//   nhd      page * page_step + slot: all heads of a key          head * head_dim on
//   hnd      page * page_step + head * page_size + slot           0 on
//
// So pages have to be whole rows apart, and a box has one more coordinate than in a tensor of rows: which page its first key is
// in. What lies behind a visible key in the same page may be loaded with it, and no more.
#include <cstdint>

#include "base/macros.hpp"
#include "exec/tensor_copy.hpp"
#include "kernels/attention/operands.hpp"

namespace baton::attention_kernels {

/// Of the number of a box's keys: boxes have 16 or 32.
inline constexpr int least_box_bits = 4, most_box_bits = 5, least_box = 1 << least_box_bits;
/// The larger a box, the fewer copies; 0: no kernel takes the page_size.
constexpr int box_bits_of(int page_size) {
  for (int bits = most_box_bits; bits >= least_box_bits; --bits)
    if (page_size % (1 << bits) == 0) return bits;
  return 0;
}

/// Of all sequences.
struct key_pages {
  const std::int32_t* table;    // [sequences, max_pages]
  const std::int32_t* lengths;  // [sequences]
  divider page_size;
  std::int32_t box_bits;  // of a box of K or V, whose 16 or 32 keys lie in one page
  std::int32_t num_pages, max_pages;
  std::int32_t most_keys;             // that a sequence may have
  std::int32_t page_step, head_step;  // rows of the matrix from page to page, from head to head
  std::int32_t head_columns;          // from head to head
  std::int32_t rows;                  // of the matrix

  /// What the device says is bounded before it is followed.
  BATON_FN int bounded_length(int said) const { return smaller(larger(said, 0), most_keys); }
  BATON_FN int first_entry(int sequence) const { return sequence * max_pages; }
  BATON_FN int entry_of(int first, int key) const { return first + page_size.quotient(key); }
  /// The row of key `key` of a sequence, whose entry in the table says `page`.
  BATON_FN int row_of(int page, int key, int kv_head) const {
    return smaller(larger(page, 0), num_pages - 1) * page_step + kv_head * head_step +
           page_size.remainder(key);
  }
  /// A row that there is not: a box there is zeros, and reads nothing.
  BATON_FN int no_row() const { return rows; }
  BATON_FN int column_of(int kv_head) const { return kv_head * head_columns; }
};

/// Rows of the matrix from page to page; 0: pages are not whole rows apart.
template <class Value>
constexpr std::int64_t page_step_in_rows(const operands<Value>& asked) {
  return asked.page_step % asked.k_row == 0 ? asked.page_step / asked.k_row : 0;
}
/// All rows of the matrix: up to most_page_rows, as 31 bits number them and those behind them that a box would have.
template <class Value>
constexpr std::int64_t rows_of_pages(const operands<Value>& asked) {
  const std::int64_t heads_of_row = asked.layout == kv_layout::hnd ? asked.kv_heads : 1;
  return asked.num_pages == 0
             ? 0
             : (asked.num_pages - 1) * page_step_in_rows(asked) + heads_of_row * asked.page_size;
}
inline constexpr std::int64_t most_page_rows = (std::int64_t{1} << 31) - 1024;

/// Of sizes that a kernel takes.
template <class Value>
key_pages pages_of(const operands<Value>& asked) {
  const bool hnd = asked.layout == kv_layout::hnd;
  return {.table = asked.page_table,
          .lengths = asked.seqlens_k,
          .page_size = divider{asked.page_size},
          .box_bits = box_bits_of(asked.page_size),
          .num_pages = asked.num_pages,
          .max_pages = asked.max_pages,
          .most_keys = asked.num_pages == 0 ? 0 : asked.k_len,
          .page_step = static_cast<std::int32_t>(page_step_in_rows(asked)),
          .head_step = hnd ? asked.page_size : 0,
          .head_columns = hnd ? 0 : asked.head_dim,
          .rows = static_cast<std::int32_t>(rows_of_pages(asked))};
}

}  // namespace baton::attention_kernels
