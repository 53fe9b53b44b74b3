#pragma once
// Rows of a box between a matrix in global memory and the bytes that a swizzled tile holds of them.
#include <cstddef>

#include "sim/tensor_map.hpp"

namespace baton::sim {

/// Some rows of a box. `first` is the number of the first of them in the box, which decides how it is swizzled.
struct box_rows {
  tensor_layout matrix;
  box_origin box;
  int first = 0;

  /// f(where in the matrix, byte of the tile, bytes): what of these `bytes` of the tile, whole rows, lies in the matrix, at
  /// most 16 bytes at a time.
  template <class F>
  void each_chunk(std::size_t bytes, F f) const {
    const std::int64_t width = matrix.columns * matrix.element_bytes;
    const std::int64_t left = std::int64_t{box.column} * matrix.element_bytes;
    const int rows = static_cast<int>(bytes) / box_row_bytes;
    for (int r = 0; r < rows; ++r) {
      const std::int64_t row = std::int64_t{box.row} + first + r;
      if (row < 0 || row >= matrix.rows) continue;
      const auto* begin = static_cast<const std::byte*>(matrix.base) + row * matrix.row_bytes;
      for (int chunk = 0; chunk < 8; ++chunk) {
        const std::int64_t at = left + chunk * 16;
        const std::int64_t skipped = at < 0 ? -at : 0, end = width - at < 16 ? width - at : 16;
        if (skipped >= end) continue;
        const int row_of_tile = first + r;
        const auto tile_byte =
            swizzled_tile<std::byte>::offset(row_of_tile, chunk) - first * box_row_bytes + skipped;
        f(begin + at + skipped, static_cast<std::size_t>(tile_byte), static_cast<std::size_t>(end - skipped));
      }
    }
  }
};

}  // namespace baton::sim
