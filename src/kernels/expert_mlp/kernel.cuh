#pragma once
// The expert MLP in two launches of one kernel, for every row r of every expert e:
//   gate_up:  intermediate[r, :] = silu(gate_e * x_r) . (up_e * x_r)      silu(v) = v / (1 + exp(-v))
//   down:     out[r, :]          = down_e * intermediate[r, :]
//
//   role   warps   takes                        gives             work per slot (64 values of k)
//   all    8       a slot, 128 x 64 and 128 x 64  accumulators    4 k-steps x 16 mma m16n8k16, a warp 32 x 64
//
//   copies   | fill 0 | fill 1 |  fill 2  |  fill 3  |  fill 4  | ...      ring of C.stages slots;
//   math                       |  mma 0   |  mma 1   |  mma 2   | ...      slot s is refilled one
//                              sync       sync       sync                  barrier after its mma
//
// Blocks are persistent and take tiles of 128 rows of one expert by a fixed stride (tile.cuh). Accumulators
// are fp32. With fp8 rows the products of each 128-value block accumulate apart, and its scale is applied in
// fp32 when they are added to the total.
#include "base/constant.hpp"
#include "base/silu.hpp"
#include "device/gpu.cuh"
#include "exec/kernel.hpp"
#include "kernels/expert_mlp/operands.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/mma.cuh"
#include "ptx/shared_address.cuh"

namespace baton::expert_mlp_kernels {

/// A thread's part of a warp's 32 x 64 result: [16 rows][8 columns][mma's four].
struct accumulators {
  float at[2][8][4];
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < 64; ++i) at[i / 32][i / 4 % 8][i % 4] = 0.0f;
  }
};

/// Where this thread sits in the tile.
struct position {
  int lane = static_cast<int>(threadIdx.x) % 32;
  int first_row = static_cast<int>(threadIdx.x) / 32 % 4 * 32;  // of the warp
  int warp_column = static_cast<int>(threadIdx.x) / 128;
  /// Tile row of at[m][.][2 * half] and its neighbour.
  __device__ __forceinline__ int row(int m, int half) const {
    return first_row + m * 16 + half * 8 + lane / 4;
  }
};

/// acc += a * b^T over one slot.
__device__ __forceinline__ void multiply(const bfloat16* a, const bfloat16* b, accumulators& acc) {
  const position at;
  const int b_row = at.warp_column * 64 + at.lane % 8 + at.lane / 16 * 8;
#pragma unroll
  for (int step = 0; step < block_k / 16; ++step) {
    std::uint32_t rows[2][4];
#pragma unroll
    for (int m = 0; m < 2; ++m)
      ptx::ldmatrix_x4(rows[m], ptx::shared_address(a + swizzled(at.first_row + m * 16 + at.lane % 16,
                                                                 step * 2 + at.lane / 16)));
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
      std::uint32_t weights[4];
      ptx::ldmatrix_x4(weights,
                       ptx::shared_address(b + swizzled(b_row + pair * 16, step * 2 + at.lane / 8 % 2)));
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        ptx::mma_m16n8k16(acc.at[m][2 * pair], rows[m], weights[0], weights[1]);
        ptx::mma_m16n8k16(acc.at[m][2 * pair + 1], rows[m], weights[2], weights[3]);
      }
    }
  }
}

/// What to do with a slot's products: bf16 rows add them up.
template <token_format Format>
struct accumulation {
  accumulators& total;
  __device__ accumulation(const params&, const tile&, accumulators& acc) : total{acc} {}
  __device__ __forceinline__ void add(const bfloat16* a, const bfloat16* b, int) { multiply(a, b, total); }
};

/// fp8 rows: two slots share a scale; total += scale * their products.
template <>
struct accumulation<token_format::blockwise_fp8> {
  const params& p;
  accumulators& total;
  accumulators block;
  int row[2][2];
  float scale[2][2];
  __device__ accumulation(const params& params_of, const tile& t, accumulators& acc)
      : p{params_of}, total{acc} {
    const position at;
#pragma unroll
    for (int i = 0; i < 4; ++i) row[i / 2][i % 2] = static_cast<int>(stored_row(p, t, at.row(i / 2, i % 2)));
  }
  __device__ __forceinline__ void add(const bfloat16* a, const bfloat16* b, int k) {
    if (k % scale_k == 0) begin(k / scale_k);
    multiply(a, b, block);
    if (k % scale_k != 0) promote();
  }
  /// Reads the scales one slot before they are needed.
  __device__ __forceinline__ void begin(int block_of_k) {
    const float* scales = p.scales + static_cast<std::int64_t>(block_of_k) * p.scale_block;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      scale[i / 2][i % 2] = scales[static_cast<std::int64_t>(row[i / 2][i % 2]) * p.scale_row];
    block.clear();
  }
  __device__ __forceinline__ void promote() {
#pragma unroll
    for (int i = 0; i < 64; ++i) {
      const int m = i / 32, n = i / 4 % 8, j = i % 4;
      total.at[m][n][j] = fmaf(scale[m][j / 2], block.at[m][n][j], total.at[m][n][j]);
    }
  }
};

struct ring {
  row_slot* a;
  weight_slot* b;
};

/// The main loop of one tile. Slot s is filled while slots s - stages + 1 to s - 1 wait or are used; the
/// barrier of the turn says both "slot s has landed for all threads" and "nobody reads slot s - 1 any more".
template <config C>
__device__ __forceinline__ void compute_tile(const params& p, const ring& slots, const tile& t,
                                             accumulators& acc) {
  row_source<C.input> rows{p, t};
  const weight_source<C> weights{p, t};
  accumulation<C.input> sum{p, t, acc};
  acc.clear();
#pragma unroll
  for (int s = 0; s < C.stages - 1; ++s) {
    if (s * block_k < p.k) {
      rows.start(slots.a[s], s * block_k);
      weights.copy(slots.b[s], s * block_k);
      rows.finish(slots.a[s]);
    }
    ptx::cp_async_commit();
  }
  int use = 0, fill = C.stages - 1;
  for (int k = 0; k < p.k; k += block_k) {
    ptx::cp_async_wait<C.stages - 2>();
    __syncthreads();
    const int ahead = k + (C.stages - 1) * block_k;
    if (ahead < p.k) {
      rows.start(slots.a[fill], ahead);
      weights.copy(slots.b[fill], ahead);
    }
    ptx::cp_async_commit();
    sum.add(slots.a[use], slots.b[use], k);
    if (ahead < p.k) rows.finish(slots.a[fill]);
    use = use + 1 == C.stages ? 0 : use + 1;
    fill = fill + 1 == C.stages ? 0 : fill + 1;
  }
  __syncthreads();  // the next tile refills from slot 0
}

/// Rounds to bf16 and stores the tile's rows, two columns at a time.
template <config C>
__device__ __forceinline__ void store_tile(const params& p, const tile& t, const accumulators& acc) {
  const position at;
  constexpr bool fused = C.what == step::gate_up;
  const int column = t.column + at.warp_column * block_columns(C) / 2 + at.lane % 4 * 2;
#pragma unroll
  for (int m = 0; m < 2; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = at.row(m, half);
      if (row >= t.rows) continue;
      bfloat16* out = p.out + static_cast<std::size_t>(t.row + row) * p.n + column;
#pragma unroll
      for (int n = 0; n < (fused ? 4 : 8); ++n) {
        const float* v = &acc.at[m][n][half * 2];
        float low = v[0], high = v[1];
        if constexpr (fused) {
          low = silu(low) * acc.at[m][n + 4][half * 2];
          high = silu(high) * acc.at[m][n + 4][half * 2 + 1];
        }
        *reinterpret_cast<__nv_bfloat162*>(out + n * 8) = __floats2bfloat162_rn(low, high);
      }
    }
  }
}

/// `Config` is constant<c>; see base/constant.hpp.
template <class Config>
struct expert_mlp_kernel {
  static constexpr config c = Config::value;
  static constexpr kernel_bounds bounds{.max_threads = num_threads, .blocks_per_sm = c.blocks_per_sm};

  static BATON_FN void run(gpu& x, const params& p) {
    static_assert(why_not(c) == nullptr);
    constexpr block_plan plan{c};
    const ring slots{plan.a(x), plan.b(x)};
    const tile_list<c> tiles{p, plan.first_row_tile(x)};
    for (int i = x.block(); i < tiles.size(); i += x.num_blocks()) {
      const tile t = tiles.at(i);
      accumulators acc;
      compute_tile<c>(p, slots, t, acc);
      store_tile<c>(p, t, acc);
    }
  }
};

}  // namespace baton::expert_mlp_kernels
