#pragma once
// A producer's way: rows of an operand from global memory to registers, then, once the slot is free, to the slot. Rows
// and columns beyond the operand are zeros.
#include "kernels/ring_gemm/config.hpp"
#include "kernels/ring_gemm/params.hpp"

namespace baton::ring_gemm_kernels {

/// Tiles of `tile_rows` rows of an operand of `rows` rows and `columns` columns. Lane l takes chunk l % 8 of rows l / 8,
/// l / 8 + 4, ...: a row's eight chunks together.
template <class X, int tile_rows>
class operand_source {
  static constexpr int rows_at_once = warp_lanes / operand_tile::chunks;
  static constexpr int held_chunks = tile_rows / rows_at_once;

 public:
  BATON_FN operand_source(const bfloat16* from, int rows, int columns, bool vectors)
      : from_{from}, rows_{rows}, columns_{columns}, vectors_{vectors} {}

  /// Starts reading the tile whose first row and column these are.
  BATON_FN void fetch(X& x, int first_row, int first_column) {
    x.each_lane([&](int lane) {
      const int row = first_row + lane / operand_tile::chunks;
      const int column = first_column + lane % operand_tile::chunks * operand_tile::chunk_values;
      const bfloat16* at = from_ + static_cast<std::int64_t>(row) * columns_ + column;
      const int values = smaller(columns_ - column, int{operand_tile::chunk_values});
      const int rows = values > 0 ? rows_ - row : 0;
      if (vectors_) {
        hold(lane, at, rows,
             [&](const bfloat16* from) { return x.read(reinterpret_cast<const vec16*>(from)); });
      } else {
        hold(lane, at, rows, [&](const bfloat16* from) { return gather(x, from, values); });
      }
    });
  }
  BATON_FN void put(X& x, const operand_tile& slot) const {
    x.each_lane([&](int lane) {
      BATON_UNROLL
      for (int i = 0; i < held_chunks; ++i) {
        const int row = lane / operand_tile::chunks + i * rows_at_once;
        x.write(slot.chunk(row, lane % operand_tile::chunks), held_[i][lane]);
      }
    });
  }

 private:
  /// Zeros from row `rows` on.
  template <class Read>
  BATON_FN void hold(int lane, const bfloat16* at, int rows, Read read) {
    BATON_UNROLL
    for (int i = 0; i < held_chunks; ++i, at += rows_at_once * columns_) {
      held_[i][lane] = vec16{};
      if (i * rows_at_once < rows) held_[i][lane] = read(at);
    }
  }

  /// The chunk of a row that is not aligned, or ends inside the chunk.
  BATON_FN static vec16 gather(X& x, const bfloat16* at, int values) {
    std::uint64_t half[2] = {};
    for (int i = 0; i < values; ++i) {
      const std::uint64_t bits = static_cast<std::uint64_t>(x.read(at + i).bits) << 16 * (i % 4);
      half[0] |= i < 4 ? bits : 0u;
      half[1] |= i < 4 ? 0u : bits;
    }
    const auto word = [&](int w) { return static_cast<std::uint32_t>(half[w / 2] >> 32 * (w % 2)); };
    return {{word(0), word(1), word(2), word(3)}};
  }

  const bfloat16* from_;
  int rows_, columns_;
  bool vectors_;
  typename X::template lanes<vec16> held_[held_chunks];
};

}  // namespace baton::ring_gemm_kernels
