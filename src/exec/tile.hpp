#pragma once
// Tiles of operands in shared memory, as copies write them and products read them.
#include <cstddef>

#include "baton/numeric.hpp"
#include "exec/exec.hpp"

namespace baton {

/// Rows of 128 bytes. 16-byte chunk c of row r stands at chunk c ^ (r % 8): the eight rows that a product reads at a time, and
/// the eight chunks of a row, fall into different banks. Aligned to 128; to 1024 where the copy engine or products of a group
/// touch it, whose swizzle goes by the address.
template <class T>
struct swizzled_tile {
  static constexpr int row_bytes = 128, columns = row_bytes / static_cast<int>(sizeof(T));
  static constexpr int chunks = 8, chunk_values = columns / chunks;

  std::byte* at;

  static constexpr int offset(int row, int chunk) { return row * row_bytes + ((chunk ^ (row & 7)) * 16); }
  BATON_FN vec16* chunk(int row, int index) const {
    return reinterpret_cast<vec16*>(at + offset(row, index));
  }
  /// The tile that begins `rows` rows further down; a multiple of 8.
  BATON_FN swizzled_tile from_row(int rows) const { return {at + rows * row_bytes}; }
};

/// An operand whose rows are values of k, `k` of them, a multiple of 16: columns 64 j to 64 j + 63 stand in the tile that begins
/// k * j rows further down.
template <class T, int k_values = 64>
struct rows_of_k {
  static constexpr int k = k_values, columns_a_tile = swizzled_tile<T>::columns;
  static_assert(columns_a_tile == 64, "products take such operands in 16 bits only");

  swizzled_tile<T> first;

  /// Of column `column` on, a multiple of 64.
  BATON_FN swizzled_tile<T> tile(int column) const { return first.from_row(column / columns_a_tile * k); }
};

template <class T>
BATON_FN rows_of_k<T> as_rows_of_k(const swizzled_tile<T>& first) {
  return {first};
}

/// Columns `first` to first + k - 1 of a tile, as an operand with fewer values of k than a tile has; both are multiples of 16.
template <class T, int k>
struct tile_columns {
  swizzled_tile<T> tile;
  int first;
};

/// A tile whose next eight rows begin `step` bytes behind the first of the eight before them.
template <class T, int step>
struct spread_tile {
  std::byte* at;

  BATON_FN vec16* chunk(int row, int index) const {
    return reinterpret_cast<vec16*>(at + row / 8 * step + swizzled_tile<T>::offset(row % 8, index));
  }
};

/// Rows of more than 128 bytes, of which each 128 stand 1024 bytes behind those before them; from 16-byte chunk `first` on, which
/// is a multiple of how many are taken, if these are fewer than eight.
template <class T, int step>
struct spread_columns {
  std::byte* at;
  int first = 0;

  BATON_FN vec16* chunk(int row, int index) const {
    constexpr int chunks = swizzled_tile<T>::chunks;
    const int place = first + index;
    const spread_tile<T, step> tile{at + place / chunks * 8 * swizzled_tile<T>::row_bytes};
    return tile.chunk(row, place % chunks);
  }
};

/// Operands of 64 rows each, which are columns here: rows are 16 values of k, spread, and columns 64 i to 64 i + 63 of eight of
/// them stand 1024 * i bytes further on.
template <class T, int step>
struct turned_tiles {
  std::byte* at;

  BATON_FN spread_tile<T, step> tile(int i) const { return {at + i * 8 * swizzled_tile<T>::row_bytes}; }
};

/// Rows of 256 fp16, each 64 of them in 128 bytes, `far` bytes behind those before them. Unit u of 16 values of row r stands at
/// unit u ^ (r % 4) of its 128 bytes: what half a warp reads at a time, a unit of four rows, falls into different banks.
struct fp16_units {
  static constexpr int row_bytes = 128, unit_bytes = 32, unit_values = 16, units = 16;

  std::byte* at;
  int far;

  /// Where unit `unit` of row `row` begins; of the second half of its values 16 bytes further on.
  BATON_FN std::byte* unit(int row, int index) const {
    return at + index / 4 * far + row * row_bytes + (index % 4 ^ (row & 3)) * unit_bytes;
  }
};

/// Values of k of as many rows as the product needs: 64 of them, or 128.
using operand_tile = swizzled_tile<bfloat16>;
using operand_tile_fp16 = swizzled_tile<float16>;
using operand_tile_e4m3 = swizzled_tile<float8_e4m3>;

/// What tiles are laid out of in shared memory.
struct alignas(1024) eight_rows {
  std::byte bytes[8 * operand_tile::row_bytes];
};

}  // namespace baton
