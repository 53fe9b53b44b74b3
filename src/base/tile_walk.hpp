#pragma once
// Which tile of a product is computed when.
#include "base/math.hpp"

namespace baton {

/// Tiles of an m x n result in the order in which blocks, or clusters, take them: bands of eight rows of tiles, column by
/// column, so that those that run together share operands in L2.
struct tile_walk {
  static constexpr int band = 8;
  int rows, columns;  // in tiles

  constexpr tile_walk(int m, int n, int tile_m, int tile_n)
      : rows{ceil_div(m, tile_m)}, columns{ceil_div(n, tile_n)} {}
  constexpr int size() const { return rows * columns; }

  struct place {
    int row, column;
  };
  constexpr place at(int index) const {
    const int first = index / (band * columns) * band, height = smaller(band, rows - first);
    const int within = index - first * columns;
    return {first + within % height, within / height};
  }
};

}  // namespace baton
