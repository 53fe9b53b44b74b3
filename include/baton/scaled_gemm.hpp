#pragma once
#include "baton/gemm.hpp"
#include "baton/grouped_gemm.hpp"
#include "baton/token_format.hpp"

namespace baton {

struct scaled_gemm_problem {
  const float8_e4m3* a = nullptr;   // [m, k]
  const float* a_scales = nullptr;  // of [m, ceil(k / 128)]
  const float8_e4m3* b = nullptr;   // [n, k]
  const float* b_scales = nullptr;  // [ceil(n / 128), ceil(k / 128)]
  bfloat16* c = nullptr;            // [m, n]
  int m = 0, n = 0, k = 0;
  scale_layout a_layout = scale_layout::row_major;  // of a_scales: or column_major
  const bfloat16* bias = nullptr;                   // [n], or
  const float* fp32_bias = nullptr;                 // [n]; not both
  activation act = activation::none;
  /// Scales of eight bits in place of fp32 ones, of a, of b or of both, in the same places: a byte each.
  const float8_e8m0* e8m0_a_scales = nullptr;
  const float8_e8m0* e8m0_b_scales = nullptr;
};

struct scaled_grouped_gemm_problem {
  const float8_e4m3* a = nullptr;   // [rows.max_rows, k]
  const float* a_scales = nullptr;  // of [rows.max_rows, ceil(k / 128)]
  const float8_e4m3* b = nullptr;   // [rows.num_ranges, n, k]
  const float* b_scales = nullptr;  // [rows.num_ranges, ceil(n / 128), ceil(k / 128)]
  bfloat16* c = nullptr;            // [rows.max_rows, n]
  int n = 0, k = 0;
  row_selection rows{};  // as of grouped_gemm_problem
  int stride = 0;
  scale_layout a_layout = scale_layout::row_major;
  /// As of grouped_gemm_problem, for a and its scales alike, which are row-major then: of a row of a those at
  /// a_scales + row * a_row_bytes, in bytes; a_row_bytes 0: [num_a_rows, k] and [num_a_rows, ceil(k / 128)].
  const std::int32_t* a_rows = nullptr;
  int num_a_rows = 0;
  int a_row_bytes = 0;
  const bfloat16* bias = nullptr;    // [rows.num_ranges, n], or
  const float* fp32_bias = nullptr;  // [rows.num_ranges, n]; not both
  activation act = activation::none;
  const float* row_weights = nullptr;  // [rows.max_rows]
  /// Scales of eight bits in place of fp32 ones, of a, of b or of both, in the same places: a byte each.
  const float8_e8m0* e8m0_a_scales = nullptr;
  const float8_e8m0* e8m0_b_scales = nullptr;
};

/// Products of e4m3 with a scale for each 1x128 block of a and each 128x128 block of b, as DeepSeek-V3 has them:
/// `c[i, j] = act((sum over blocks s of 128 values of k of a_scales[i, s] * b_scales[j / 128, s] * (sum over l in s of
/// a[i, l] * b[j, l])) + bias[j])`, on this rank's device; of groups of rows by a matrix and a bias each, times row_weights[i],
/// as grouped_gemm. What quantise and dispatch write as blockwise_fp8 is an `a` with its scales: by expert with column_major, by
/// token with row_major.
///
/// | argument            | shape                          | type       | layout, alignment                                  |
/// |---------------------|--------------------------------|------------|----------------------------------------------------|
/// | `a`                 | [m, k]                         | e4m3       | contiguous, 16-byte aligned                        |
/// | `a_scales`          | [m, ceil(k / 128)]             | fp32       | row-major; column-major: m of a block in a row     |
/// | `b`                 | [n, k], for each group         | e4m3       | contiguous, 16-byte aligned                        |
/// | `b_scales`          | [ceil(n / 128), ceil(k / 128)] | fp32       | row-major, for each group                          |
/// | `c`                 | [m, n]                         | bf16       | contiguous, 16-byte aligned; rows of no group stay |
/// | `bias`, `fp32_bias` | [n], for each group            | bf16, fp32 | 16-byte aligned; one of them, or none              |
/// | `row_weights`       | [max_rows], of groups          | fp32       | of each row of c; or null                          |
///
/// Scales of eight bits, e8m0, are powers of two, so that products by them are what fp32 scales of the same values make, bit for
/// bit; 255 is NaN. Those of a row-major a that come packed, four to a word along k, are such bytes where a row has a multiple of
/// four of them.
/// n is a multiple of 8, k of 16, both from 0; the last blocks may be smaller. Everything else as of gemm and grouped_gemm.
///
/// Rounding: products of e4m3 are exact. What the tensor cores sum of a block they keep, on Hopper, to some 13 bits below its
/// largest term; the block's sum times the product of both scales, rounded to fp32, is added in fp32 with one rounding,
/// blocks in order; a bias, an activation and weights as of gemm and grouped_gemm; the result is rounded to bf16. On the CPU a
/// block is summed in fp32. Exact, without silu and gelu, wherever the magnitudes of a block's products are integers that add up
/// to less than 2^13, scales are powers of two, the sums of blocks and what comes of them are fp32 values and the result is a
/// bf16. Deterministic: the same bits on however many SMs, with whatever tiles, wherever a row lies, where
/// `config.splits` is said; 0, the default, may choose another number of parts of k, with other roundings, for another m, n, k or
/// number of SMs. 1 sums k in one piece.
/// Order: on `stream`; capturable in a CUDA graph; no host synchronisation, no allocation. Waits inside are bounded by the
/// world's deadline.
/// `config`: tiles are automatic, paired or medium; blocks that share out k (`splits`) are of dense products.
/// Cost: 2 n k flops a row at the rate of e4m3. Scales of eight bits pass through registers on their way to the tensor
/// cores, a little later than fp32 ones. On the CPU it is plain loops.
/// @throws invalid_argument  an argument is not as above: names it, the value and what is expected; nothing is enqueued
/// @throws cuda_error        the launch failed
void scaled_gemm(const world& world, const scaled_gemm_problem& problem, const gemm_config& config = {},
                 stream_ref stream = {});
void scaled_grouped_gemm(const world& world, const scaled_grouped_gemm_problem& problem,
                         stream_ref stream = {});

}  // namespace baton
