#pragma once
#include "baton/numeric.hpp"
#include "baton/world.hpp"

namespace baton {

/// How the warps of the product hand tiles over: four ways to say "this slot is filled" and "this slot is free". Same
/// results, different speed; `baton bench ring` measures them.
enum class ring_strategy {
  single_counter,    // one counter a slot, written and polled by both sides
  split_counter,     // one counter for the producer, one for the readers
  per_reader_flags,  // a flag for each reader, no read-modify-writes
  mbarrier,          // hardware barriers; waits suspend instead of polling
};

constexpr const char* name(ring_strategy s) {
  switch (s) {
    case ring_strategy::single_counter:
      return "single_counter";
    case ring_strategy::split_counter:
      return "split_counter";
    case ring_strategy::per_reader_flags:
      return "per_reader_flags";
    default:
      return "mbarrier";
  }
}

/// Block tiles: large is 128 x 128 with 14 warps, small 64 x 64 with 8.
enum class ring_gemm_tiles { automatic, small, large };

struct ring_gemm_config {
  ring_strategy strategy = ring_strategy::mbarrier;
  ring_gemm_tiles tiles = ring_gemm_tiles::automatic;  // small where large ones would leave SMs without work
  int num_sms = 0;                                     // blocks at most; 0: all of the rank's SMs
};

struct ring_gemm_problem {
  const bfloat16* a = nullptr;  // [m, k]
  const bfloat16* b = nullptr;  // [n, k]
  float* c = nullptr;           // [m, n]
  int m = 0, n = 0, k = 0;
};

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
