#pragma once
// Which tiles there are, and the swizzled shared memory they pass through.
#include "base/math.hpp"
#include "kernels/expert_mlp/config.hpp"
#include "kernels/expert_mlp/params.hpp"

namespace baton::expert_mlp_kernels {

/// `rows` x 64 bf16 in shared memory. 16-byte chunk c of row r sits at chunk c ^ (r % 8), so that the eight
/// rows of an ldmatrix, and the eight chunks of a row, fall into different banks.
__device__ __forceinline__ int swizzled(int row, int chunk) {
  return row * block_k + ((chunk ^ (row & 7)) * 8);
}

/// `rows` rows of `expert` from `row`, and weight columns from `column` of the result.
struct tile {
  int expert, row, rows, column;
};

/// Which row of p.a the tile's `i`-th row is; past its end, its last one.
__device__ __forceinline__ std::int64_t stored_row(const params& p, const tile& t, int i) {
  const int row = t.row + smaller(i, t.rows - 1);
  if (p.token_rows == nullptr) return row;
  return smaller(larger(p.token_rows[row], 0),
                 p.num_token_rows - 1);  // as row counts are, bounded before it is followed
}

/// All tiles of the launch, the same list in every block: experts in order; within one, row tiles fastest, so
/// that blocks that run together share weights in L2. Block b takes tiles b, b + gridDim.x, ...
template <config C>
class tile_list {
 public:
  /// The whole block calls it; reads the row counts once.
  __device__ tile_list(const params& p, std::int32_t* first_row_tile)
      : p_{p}, first_{first_row_tile}, columns_{p.n / block_columns(C)} {
    if (threadIdx.x < 32) scan();
    __syncthreads();
  }
  __device__ int size() const { return first_[p_.num_experts] * columns_; }

  __device__ tile at(int index) const {
    int low = 0, high = p_.num_experts;  // the expert is in [low, high)
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (first_[middle] * columns_ <= index ? low : high) = middle;
    }
    const int row_tiles = first_[low + 1] - first_[low], within = index - first_[low] * columns_;
    const int row = within % row_tiles * block_rows;
    return {low, first_row(low) + row, smaller(rows_of(low) - row, block_rows),
            within / row_tiles * block_columns(C)};
  }

 private:
  // What the device says is bounded before it is followed.
  __device__ int first_row(int expert) const {
    return smaller(larger(p_.row_offsets[expert], 0), p_.max_rows);
  }
  __device__ int rows_of(int expert) const {
    return smaller(larger(p_.row_counts[expert], 0), p_.max_rows - first_row(expert));
  }

  __device__ void scan() {
    const int lane = static_cast<int>(threadIdx.x);
    int before = 0;
    for (int base = 0; base < p_.num_experts; base += 32) {
      const int expert = base + lane;
      const int own = expert < p_.num_experts ? ceil_div(rows_of(expert), block_rows) : 0;
      int sum = own;
      for (int delta = 1; delta < 32; delta *= 2) {
        const int lower = __shfl_up_sync(0xffffffffu, sum, delta);
        if (lane >= delta) sum += lower;
      }
      if (expert < p_.num_experts) first_[expert] = before + sum - own;
      before += __shfl_sync(0xffffffffu, sum, 31);
    }
    if (lane == 0) first_[p_.num_experts] = before;
  }

  const params& p_;
  std::int32_t* first_;
  int columns_;
};

}  // namespace baton::expert_mlp_kernels
