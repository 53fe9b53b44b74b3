#pragma once
#include <cstddef>
#include <cstdint>

#include "baton/activation.hpp"
#include "baton/expert_parallel.hpp"
#include "baton/weight_format.hpp"

namespace baton {

/// The weights of one rank's experts, in the layout of a checkpoint; device memory of the world's device.
struct expert_weights {
  const void* gate = nullptr;  // [num_local_experts, intermediate, hidden] values of `format`
  const void* up = nullptr;    // [num_local_experts, intermediate, hidden]
  const void* down = nullptr;  // [num_local_experts, hidden, intermediate]
  int num_local_experts = 0;
  int hidden = 0;  // both multiples of 8; of 16 with block_fp8 on CUDA
  int intermediate = 0;
  weight_format format = weight_format::bf16;
  // With block_fp8 those of each matrix, finite and not negative, else null.
  const float* gate_scales =
      nullptr;  // [num_local_experts, weight_scales(intermediate), weight_scales(hidden)]
  const float* up_scales =
      nullptr;  // [num_local_experts, weight_scales(intermediate), weight_scales(hidden)]
  const float* down_scales =
      nullptr;  // [num_local_experts, weight_scales(hidden), weight_scales(intermediate)]
  // Each may be null: none.
  const bfloat16* gate_bias = nullptr;  // [num_local_experts, intermediate]
  const bfloat16* up_bias = nullptr;    // [num_local_experts, intermediate]
  const bfloat16* down_bias = nullptr;  // [num_local_experts, hidden]
  gating gated_by = gating::silu;       // what becomes of gate and up
  int num_sms = 0;                      // that work on them; 0: all of the rank's. The CPU looks at none
};

/// Bytes of scratch that expert_mlp needs for such rows: max_rows, format and hidden are looked at.
/// @throws invalid_argument  rows.max_rows, rows.hidden or weights.intermediate is negative
std::size_t expert_mlp_scratch_bytes(const expert_weights& weights, const received_tokens& rows,
                                     device_kind device);

/// Each received row through its expert: `out[r, :] = row_weights[r] * (down * h + down_bias)` with
/// h = silu(gate * x_r + gate_bias) . (up * x_r + up_bias), silu(v) = v / (1 + exp(-v)), or what `gated_by` says. What is null is
/// left out.
///
/// | argument           | shape              | type | layout, alignment                                                |
/// |--------------------|--------------------|------|------------------------------------------------------------------|
/// | `rows`             |                    |      | as dispatch_wait left it, in any format, by expert or by token   |
/// | `rows.row_weights` | [max_rows]         | fp32 | no dispatch sets it: see received_tokens                         |
/// | `weights.*_bias`   | see expert_weights | bf16 | contiguous, 16-byte aligned on CUDA                              |
/// | `out`              | [max_rows, hidden] | bf16 | contiguous, 16-byte aligned; rows outside every expert untouched |
/// | `scratch`          | see scratch_bytes  |      | device memory, 256-byte aligned; null where 0 bytes are needed   |
///
/// Rounding, the same on every device but for the order of sums and the last bits of exp:
/// bf16 weights: rows of a format with scales stand for value * scale, rounded to bf16. Products accumulate in fp32, k ascending
/// within what the tensor cores fix; silu(gate) . up is rounded to bf16, `out` once more.
/// A bias is added to a product's sum in fp32, a row's weight multiplies the down product's sum and its bias in fp32, each with
/// one rounding, before what is rounded to bf16 or e4m3 is. What the bias of an expert without rows is reaches nothing.
/// block_fp8 weights: both sides of a product are e4m3. Rows of blockwise_fp8 are taken as they came; others, and
/// silu(gate) . up in fp32, are rounded as token_format says of blockwise_fp8, the last block of a row possibly shorter. A value
/// of a product is then `sum over b of (row_scale[b] * weight_scale[n / 128, b]) * (sum over k in b of row * weight)` over the
/// blocks b of 128 along k, ascending: the inner sum as scaled_gemm has it, the outer one by fused multiply-adds in fp32.
/// Deterministic: the same bits wherever a row lies, by expert or by token, and with any number of SMs.
///
/// Order: on `stream`; capturable; row counts are read on the device; no host synchronisation, no allocation. Waits inside are
/// bounded by the world's deadline.
///
/// Cost: 6 * rows * hidden * intermediate flops, of e4m3 with block_fp8; every weight of an expert that has rows is read once,
/// mostly. Rows are read where they lie, also by token; those that are not of the weights' type (bf16 with bf16, blockwise_fp8
/// with block_fp8) pass once more through memory.
/// @throws invalid_argument  a shape or alignment above does not hold, or weights and rows disagree; nothing is enqueued
/// @throws cuda_error        a launch failed
void expert_mlp(const world& world, const expert_weights& weights, const received_tokens& rows, bfloat16* out,
                void* scratch, stream_ref stream = {});

}  // namespace baton
