#pragma once
#include "baton/activation.hpp"
#include "baton/gemm_config.hpp"
#include "baton/numeric.hpp"
#include "baton/world.hpp"

namespace baton {

/// How b lies: as weights of a layer mostly do, whose row j makes column j of c; or as the right one of two matrices.
enum class gemm_b_layout { n_by_k, k_by_n };

constexpr const char* name(gemm_b_layout l) {
  return l == gemm_b_layout::k_by_n ? "k_by_n" : "n_by_k";
}

/// `In` is bfloat16 or float16, `Out` the same or float.
template <class Out, class In = bfloat16>
struct gemm_problem {
  const In* a = nullptr;  // [m, k]
  const In* b = nullptr;  // [n, k]; [k, n] with b_layout k_by_n
  Out* c = nullptr;       // [m, n]
  int m = 0, n = 0, k = 0;
  float alpha = 1, beta = 0;
  const Out* bias = nullptr;         // [n], or
  const float* fp32_bias = nullptr;  // [n]; not both
  activation act = activation::none;
  gemm_b_layout b_layout = gemm_b_layout::n_by_k;
};

/// `c = act(alpha * a * b^T + beta * c + bias)`: c[i, j] = act(alpha * (sum over l of a[i, l] * b[j, l]) + beta * c[i, j] +
/// bias[j]), on this rank's device; b[l, j] with b_layout k_by_n, which is a * b.
///
/// | argument            | shape  | type               | layout, alignment                                          |
/// |---------------------|--------|--------------------|------------------------------------------------------------|
/// | `a`                 | [m, k] | bf16 or fp16       | contiguous, 16-byte aligned                                |
/// | `b`                 | [n, k] | that of a          | contiguous, 16-byte aligned; [k, n] with k_by_n            |
/// | `c`                 | [m, n] | that of a, or fp32 | contiguous, 16-byte aligned; read only where beta is not 0 |
/// | `bias`, `fp32_bias` | [n]    | that of c, or fp32 | 16-byte aligned; one of them, or none                      |
///
/// Any m, and n and k that are multiples of 8, from 0 to 2^28, m * n to 2^40, without padding; k = 0 gives act(beta * c + bias).
/// Memory of the world's device; `c` overlaps nothing else.
///
/// Rounding: products are exact in fp32 and summed in fp32, k ascending within what the tensor cores fix, which truncate where
/// they add; the sum is multiplied by alpha, beta * c is added with one rounding, the bias with another; silu is off by 2^-21 of
/// its value at most, gelu by (1 + |u|) times that, where u is what its tanh is of, either by 2^-121 where that is more; the
/// result is rounded to nearest once more where c is not fp32; fp16 that rounds beyond 65504 becomes infinite. Exact wherever
/// all partial sums are integers below 2^24, no silu or gelu is asked for and the result is a value of c's type.
/// Alpha 0 multiplies, too: unlike in BLAS, what is infinite or no number in a and b stays seen.
/// Deterministic: the same bits on every run, wherever a row lies, with whatever tiles and SMs, where `config.splits` is said; 0,
/// the default, may choose another number, with other roundings, for another m, n, k or number of SMs. 1 sums k in one piece.
/// Order: on `stream`; capturable in a CUDA graph; no host synchronisation, no allocation. Waits inside are bounded by the
/// world's deadline.
///
/// Cost: 2 m n k flops; on CUDA a is read n / 256 times and b m / 256 times, mostly from L2, and whatever differs from alpha 1,
/// beta 0, no bias, no act and b n_by_k costs a little at each tile's end. On the CPU it is plain loops.
/// @throws invalid_argument  a size out of range or no multiple of 8, a null or misaligned pointer to something that is not
///                           empty: names the argument, the value and what is expected; nothing is enqueued. Or a choice of the
///                           configuration that there is not
/// @throws cuda_error        the launch failed
void gemm(const world& world, const gemm_problem<bfloat16>& problem, const gemm_config& config = {},
          stream_ref stream = {});
void gemm(const world& world, const gemm_problem<float>& problem, const gemm_config& config = {},
          stream_ref stream = {});
void gemm(const world& world, const gemm_problem<float16, float16>& problem, const gemm_config& config = {},
          stream_ref stream = {});
void gemm(const world& world, const gemm_problem<float, float16>& problem, const gemm_config& config = {},
          stream_ref stream = {});

}  // namespace baton
