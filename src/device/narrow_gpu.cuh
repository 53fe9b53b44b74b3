#pragma once
// Verbs of one warp with e4m3 in shared memory, of group_gpu. What each verb means: exec/narrow_mma.hpp.
#include "device/gpu.cuh"
#include "device/lane_here.cuh"
#include "exec/narrow_mma.hpp"
#include "ptx/cvt.cuh"
#include "ptx/ld_shared.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/mma.cuh"
#include "ptx/shared_address.cuh"

namespace baton {

class narrow_gpu {
 public:
  /// A lane reads four neighbours of a row of A at once: values of k are taken in an order in which these are what mma wants of
  /// it: with t = lane % 4, 4 t and 4 t + 1 as its 2 t and 2 t + 1, the next two as its 2 t + 8 and 2 t + 9. The same of B. All
  /// of A is asked for before the first product, and every other product is added up by itself, as each waits for the one before.
  template <class Accumulators, int step>
  BATON_FN static void multiply_add(Accumulators& acc, const spread_columns<float8_e4m3, step>& a,
                                    const fp16_units& b, int columns) {
    constexpr int pairs = fp16_units::units / 2;
    const int lane = lane_here();
    const std::uint32_t left_at = place_of_lane(a),
                        right_at = ptx::shared_address(b.unit(lane / 4, 0)) + lane % 4 * 8;
    std::uint32_t rows[pairs][4];
    uint2 upper[2 * pairs];
    BATON_UNROLL
    for (int pair = 0; pair < pairs; ++pair) {
      ptx::ldmatrix_x4(rows[pair], further(left_at, pair));
      upper[2 * pair] = ptx::ld_shared_v2(unit_at(right_at, b.far, 2 * pair));
      upper[2 * pair + 1] = ptx::ld_shared_v2(unit_at(right_at, b.far, 2 * pair + 1));
    }
    float others[8] = {};
    BATON_UNROLL
    for (int unit = 0; unit < 2 * pairs; ++unit) {
      const std::uint32_t* const of_rows = rows[unit / 2] + unit % 2 * 2;
      float* const to = unit % 2 == 0 ? acc.at : others;
      std::uint32_t left[4];
      widen(of_rows[0], left[0], left[2]), widen(of_rows[1], left[1], left[3]);
      ptx::mma_m16n8k16_fp16(to, left, upper[unit].x, upper[unit].y);
      if (columns <= 8) continue;
      const uint2 lower = ptx::ld_shared_v2(unit_at(right_at, b.far, unit) + 8 * fp16_units::row_bytes);
      ptx::mma_m16n8k16_fp16(to + 4, left, lower.x, lower.y);
    }
    BATON_UNROLL
    for (int i = 0; i < 8; ++i) acc.at[i] += others[i];
  }

  /// Rows of V come turned, two columns of them as one value of 16 bits: of two rows a lane has both columns. Bytes of rows that
  /// do not count are taken from a zero. All of V is asked for before the first product.
  template <class Accumulators, int n, int step>
  BATON_FN static void multiply_add_turned(Accumulators (&accs)[n],
                                           const spread_columns<float8_e4m3, step>& v,
                                           const operand_tile_fp16& w, row_span rows, int columns) {
    static_assert(n % 2 == 0, "chunks of V are read two at a time");
    constexpr int sixteens = 4, pairs = n / 2;
    const int lane = lane_here();
    const std::uint32_t at = place_of_lane(v);
    std::uint32_t turned[sixteens][pairs][4];
    std::uint32_t right[sixteens][4];  // of columns 0 to 7 and of the others two each
    BATON_UNROLL
    for (int k = 0; k < sixteens; ++k) {
      ptx::ldmatrix_x4(right[k],
                       ptx::shared_address(w.chunk(lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2)));
      BATON_UNROLL
      for (int pair = 0; pair < pairs; ++pair)
        ptx::ldmatrix_turned_x4(turned[k][pair], further(at + 2 * k * step, pair));
    }
    BATON_UNROLL
    for (int k = 0; k < sixteens; ++k) {
      const int first = 16 * k + lane % 4 * 2;
      const std::uint32_t low = bytes_of(first, rows), high = bytes_of(first + 8, rows);
      BATON_UNROLL
      for (int i = 0; i < n; ++i) {
        const std::uint32_t* const of_rows = turned[k][i / 2] + i % 2 * 2;
        std::uint32_t left[4];
        widen(__byte_perm(of_rows[0], 0, low), left[0], left[1]);
        widen(__byte_perm(of_rows[1], 0, high), left[2], left[3]);
        ptx::mma_m16n8k16_fp16(accs[i].at, left, right[k][0], right[k][1]);
        if (columns > 8) ptx::mma_m16n8k16_fp16(accs[i].at + 4, left, right[k][2], right[k][3]);
      }
    }
  }

 private:
  /// Two fp16 of the lower half of four e4m3, and two of the upper one.
  BATON_FN static void widen(std::uint32_t four, std::uint32_t& low, std::uint32_t& high) {
    low = ptx::cvt_f16x2_low_e4m3x2(four), high = ptx::cvt_f16x2_high_e4m3x2(four);
  }
  /// The row that a lane names to ldmatrix: rows 0 to 7 and 8 to 15 of the first chunk, then of the next.
  template <int step>
  BATON_FN static std::uint32_t place_of_lane(const spread_columns<float8_e4m3, step>& tile) {
    const int lane = lane_here();
    return ptx::shared_address(tile.chunk(lane % 16, lane / 16));
  }
  /// `pair` pairs of chunks further on: two bits of the address flipped, as tiles are aligned, and 1024 bytes for each four.
  BATON_FN static std::uint32_t further(std::uint32_t at, int pair) {
    return (at ^ static_cast<std::uint32_t>(pair % 4 * 32)) +
           static_cast<std::uint32_t>(pair / 4 * 8 * operand_tile_e4m3::row_bytes);
  }
  /// The same of units, where each four are `far` bytes further on.
  BATON_FN static std::uint32_t unit_at(std::uint32_t at, int far, int unit) {
    return (at ^ static_cast<std::uint32_t>(unit % 4 * fp16_units::unit_bytes)) +
           static_cast<std::uint32_t>(unit / 4 * far);
  }
  /// Which bytes of a word, or of the zero behind it, are two rows' first columns and then their second ones.
  BATON_FN static std::uint32_t bytes_of(int row, row_span rows) {
    const auto counts = [&](int r) { return r >= rows.begin && r < rows.end; };
    return (counts(row) ? 0x0100u : 0x0404u) | (counts(row + 1) ? 0x3020u : 0x4040u);
  }
};

}  // namespace baton
