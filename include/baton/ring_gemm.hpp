#pragma once
#include "baton/ring_gemm_config.hpp"
#include "baton/world.hpp"

namespace baton {

/// `c = a * b^T`: c[i, j] = sum over l of a[i, l] * b[j, l], on this rank's device.
///
/// | argument | shape  | type | layout, alignment                                                               |
/// |----------|--------|------|---------------------------------------------------------------------------------|
/// | `a`      | [m, k] | bf16 | contiguous; fastest where k is a multiple of 8 and `a`, `b` are 16-byte aligned |
/// | `b`      | [n, k] | bf16 | contiguous                                                                      |
/// | `c`      | [m, n] | fp32 | contiguous; overwritten, read by nobody                                         |
///
/// Any m, n, k from 0 to 2^28, m * n to 2^40, without padding; k = 0 gives zeros. Memory of the world's device;
/// `c` overlaps neither operand.
///
/// Rounding: products are exact in fp32 and summed in fp32, k ascending within what the tensor cores fix; exact
/// wherever all partial sums are integers below 2^24. Deterministic: every strategy gives the same bits.
/// Order: on `stream`; capturable in a CUDA graph; no host synchronisation, no allocation. Waits inside are bounded by the
/// world's deadline.
///
/// Cost: 2 m n k flops; a is read n / tile times and b m / tile times, mostly from L2.
/// @throws invalid_argument  a size out of range, a null or misaligned pointer to something that is not empty, or a choice
///                           of the configuration that there is not
/// @throws cuda_error        the launch failed
void ring_gemm(const world& world, const ring_gemm_problem& problem, const ring_gemm_config& config = {},
               stream_ref stream = {});

}  // namespace baton
