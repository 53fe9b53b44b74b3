#pragma once
// The matrix verbs on a GPU. What each verb means: exec/mma.hpp.
#include "device/gpu.cuh"
#include "exec/mma.hpp"
#include "ptx/ldmatrix.cuh"
#include "ptx/mma.cuh"
#include "ptx/shared_address.cuh"

namespace baton {

class mma_gpu : public gpu {
 public:
  using gpu::gpu;

  /// A lane's share of rows x columns: [16 rows][8 columns][mma's four].
  template <int rows, int columns>
  struct accumulators {
    static_assert(rows % 16 == 0 && columns % 16 == 0);
    float at[rows / 16][columns / 8][4];
  };

  template <int rows, int columns>
  BATON_FN static void clear(accumulators<rows, columns>& acc) {
    BATON_UNROLL
    for (int m = 0; m < rows / 16; ++m) {
      BATON_UNROLL
      for (int n = 0; n < columns / 8; ++n) {
        BATON_UNROLL
        for (float& v : acc.at[m][n]) v = 0.0f;
      }
    }
  }

  template <int rows, int columns>
  BATON_FN static void multiply_add(accumulators<rows, columns>& acc, const operand_tile& a,
                                    const operand_tile& b) {
    const int lane = static_cast<int>(threadIdx.x) % warp_lanes;
    const int b_row = lane % 8 + lane / 16 * 8;
    // A step further is two bits of the address flipped, since the tile is aligned, and 16 rows further is none of them: one
    // register holds all addresses of A. The same for B lets ring products with counters gain 2 to 7 % more and those with
    // mbarriers lose 4 % (H200).
    const std::uint32_t a_at = ptx::shared_address(a.chunk(lane % 16, lane / 16));
    BATON_UNROLL
    for (int step = 0; step < operand_tile::columns / 16; ++step) {
      const std::uint32_t a_step = a_at ^ static_cast<std::uint32_t>(operand_tile::offset(0, 2 * step));
      std::uint32_t left[rows / 16][4];
      BATON_UNROLL
      for (int m = 0; m < rows / 16; ++m)
        ptx::ldmatrix_x4(left[m], a_step + static_cast<std::uint32_t>(operand_tile::offset(16 * m, 0)));
      BATON_UNROLL
      for (int pair = 0; pair < columns / 16; ++pair) {
        std::uint32_t right[4];
        ptx::ldmatrix_x4(right, ptx::shared_address(b.chunk(pair * 16 + b_row, step * 2 + lane / 8 % 2)));
        BATON_UNROLL
        for (int m = 0; m < rows / 16; ++m) {
          ptx::mma_m16n8k16(acc.at[m][2 * pair], left[m], right[0], right[1]);
          ptx::mma_m16n8k16(acc.at[m][2 * pair + 1], left[m], right[2], right[3]);
        }
      }
    }
  }

  template <int rows, int columns, class F>
  BATON_FN static void each_pair(const accumulators<rows, columns>& acc, F f) {
    const int lane = static_cast<int>(threadIdx.x) % warp_lanes;
    BATON_UNROLL
    for (int m = 0; m < rows / 16; ++m) {
      BATON_UNROLL
      for (int half = 0; half < 2; ++half) {
        BATON_UNROLL
        for (int n = 0; n < columns / 8; ++n) {
          const float* v = &acc.at[m][n][2 * half];
          f(m * 16 + half * 8 + lane / 4, n * 8 + lane % 4 * 2, v[0], v[1]);
        }
      }
    }
  }
};
static_assert(mma_exec_context<mma_gpu>);

}  // namespace baton
