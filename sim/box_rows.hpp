#pragma once
// Rows of a box between a tensor in global memory and the bytes that a swizzled tile holds of them.
#include <cstddef>

#include "sim/tensor_map.hpp"

namespace baton::sim {

/// Some rows of a box. `first` is the number of the first of them in the box, which decides how it is swizzled.
struct box_rows {
  tensor_boxes tensor;
  box_place place;
  int first = 0;

  /// f(where in the tensor, byte of the tile, bytes): what of these `bytes` of the tile, whole rows, lies in the tensor, at
  /// most 16 bytes at a time.
  template <class F>
  void each_chunk(std::size_t bytes, F f) const {
    const std::int64_t width = tensor.extents[0] * tensor.element_bytes;
    const std::int64_t left = std::int64_t{place.at[0]} * tensor.element_bytes;
    const int rows = static_cast<int>(bytes) / box_row_bytes;
    for (int r = 0; r < rows; ++r) {
      const auto* begin = row(first + r);
      if (begin == nullptr) continue;
      for (int chunk = 0; chunk < 8; ++chunk) {
        const std::int64_t at = left + chunk * 16;
        const std::int64_t skipped = at < 0 ? -at : 0, end = width - at < 16 ? width - at : 16;
        if (skipped >= end) continue;
        const auto tile_byte =
            swizzled_tile<std::byte>::offset(first + r, chunk) - first * box_row_bytes + skipped;
        f(begin + at + skipped, static_cast<std::size_t>(tile_byte), static_cast<std::size_t>(end - skipped));
      }
    }
  }

 private:
  /// Null: it lies outside the tensor.
  const std::byte* row(int number) const {
    const auto* begin = static_cast<const std::byte*>(tensor.base);
    for (int d = 1; d < tensor_boxes::most_dims; ++d) {
      const std::int64_t at = std::int64_t{place.at[d]} + number % tensor.box[d];
      number /= tensor.box[d];
      if (at < 0 || at >= tensor.extents[d]) return nullptr;
      begin += at * tensor.strides[d - 1];
    }
    return begin;
  }
};

}  // namespace baton::sim
