#pragma once
#include <cstdint>

#include "base/macros.hpp"
#include "base/math.hpp"
#include "baton/ring_gemm.hpp"

namespace baton::ring_gemm_kernels {

/// What the kernel reads and writes: passed by value as a __grid_constant__.
struct params {
  const bfloat16* a;  // [m, k]
  const bfloat16* b;  // [n, k]
  float* c;           // [m, n]
  int m, n, k;
  bool vectors;  // rows of a and b are 16-byte aligned
};

inline params params_of(const ring_gemm_problem& p) {
  const auto aligned = [](const bfloat16* operand) {
    return reinterpret_cast<std::uintptr_t>(operand) % 16 == 0;
  };
  return {p.a, p.b, p.c, p.m, p.n, p.k, p.k % 8 == 0 && aligned(p.a) && aligned(p.b)};
}

/// Tiles of C in the order blocks take them: bands of eight rows of tiles, column by column, so that blocks that run
/// together share operands in L2.
struct tile_walk {
  static constexpr int band = 8;
  int rows, columns;  // in tiles

  constexpr tile_walk(int m, int n, int block_m, int block_n)
      : rows{ceil_div(m, block_m)}, columns{ceil_div(n, block_n)} {}
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

}  // namespace baton::ring_gemm_kernels
