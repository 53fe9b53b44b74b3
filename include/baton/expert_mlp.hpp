#pragma once
#include <cstddef>
#include <cstdint>

#include "baton/expert_parallel.hpp"
#include "baton/weight_format.hpp"

namespace baton {

/// The weights of one rank's experts, in the layout of a checkpoint; device memory of the world's device.
struct expert_weights {
  const void* gate = nullptr;  // [num_local_experts, intermediate, hidden] values of `format`
  const void* up = nullptr;    // [num_local_experts, intermediate, hidden]
  const void* down = nullptr;  // [num_local_experts, hidden, intermediate]
  int num_local_experts = 0;
  int hidden = 0;                              // a multiple of 128 on CUDA, of 8 on the CPU
  int intermediate = 0;                        // a multiple of 64 on CUDA, of 8 on the CPU
  weight_format format = weight_format::bf16;  // block_fp8: on the CPU
  // With block_fp8 those of each matrix, finite and not negative, else null.
  const float* gate_scales =
      nullptr;  // [num_local_experts, weight_scales(intermediate), weight_scales(hidden)]
  const float* up_scales =
      nullptr;  // [num_local_experts, weight_scales(intermediate), weight_scales(hidden)]
  const float* down_scales =
      nullptr;  // [num_local_experts, weight_scales(hidden), weight_scales(intermediate)]
};

/// Bytes of scratch that expert_mlp needs for `max_rows` rows.
/// @throws invalid_argument  max_rows or weights.intermediate is negative
std::size_t expert_mlp_scratch_bytes(const expert_weights& weights, int max_rows, device_kind device);

/// Each received row through its expert: `out[r, :] = down * (silu(gate * x_r) . (up * x_r))` with
/// silu(v) = v / (1 + exp(-v)).
///
/// | argument  | shape              | type | layout, alignment                                                |
/// |-----------|--------------------|------|------------------------------------------------------------------|
/// | `rows`    |                    |      | as dispatch_wait left it, scaled back; on CUDA bf16 or fp8 rows  |
/// | `out`     | [max_rows, hidden] | bf16 | contiguous, 16-byte aligned; rows outside every expert untouched |
/// | `scratch` | see scratch_bytes  |      | device memory, 256-byte aligned; null where 0 bytes are needed   |
///
/// Rounding with bf16 weights: products accumulate in fp32, k ascending within what the tensor cores fix; on CUDA the product
/// silu(gate) . up is rounded to bf16 before the down projection, on the CPU it stays fp32; `out` is rounded
/// once. Deterministic.
///
/// Rounding with block_fp8 weights: both sides of a product are e4m3. Rows of blockwise_fp8 are taken as they came; others, and
/// silu(gate) . up in fp32, are rounded as token_format says of blockwise_fp8, the last block of a row possibly shorter. A value
/// of a product is then `sum over b of (row_scale[b] * weight_scale[n / 128, b]) * (sum over k in b of row * weight)` over the
/// blocks b of 128 along k, ascending: the inner sum in fp32 of exact products, the outer one by fused multiply-adds in fp32.
///
/// Order: on `stream`; capturable; row counts are read on the device.
///
/// Cost: 6 * rows * hidden * intermediate flops; every weight is read at least once.
/// @throws invalid_argument  a shape or alignment above does not hold, weights and rows disagree, or block_fp8 on CUDA
void expert_mlp(const world& world, const expert_weights& weights, const received_tokens& rows, bfloat16* out,
                void* scratch, stream_ref stream = {});

}  // namespace baton
