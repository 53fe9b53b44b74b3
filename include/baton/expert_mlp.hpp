#pragma once
#include <cstddef>
#include <cstdint>

#include "baton/expert_parallel.hpp"

namespace baton {

/// The weights of one rank's experts, in the layout of a checkpoint; device memory of the world's device.
struct expert_weights {
  const bfloat16* gate = nullptr;  // [num_local_experts, intermediate, hidden]
  const bfloat16* up = nullptr;    // [num_local_experts, intermediate, hidden]
  const bfloat16* down = nullptr;  // [num_local_experts, hidden, intermediate]
  int num_local_experts = 0;
  int hidden = 0;        // a multiple of 128 on CUDA, of 8 on the CPU
  int intermediate = 0;  // a multiple of 64 on CUDA, of 8 on the CPU
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
/// Rounding: products accumulate in fp32, k ascending within what the tensor cores fix; on CUDA the product
/// silu(gate) . up is rounded to bf16 before the down projection, on the CPU it stays fp32; `out` is rounded
/// once. Deterministic. Order: on `stream`; capturable; row counts are read on the device.
///
/// Cost: 6 * rows * hidden * intermediate flops; every weight is read at least once.
/// @throws invalid_argument  a shape or alignment above does not hold, or weights and rows disagree
void expert_mlp(const world& world, const expert_weights& weights, const received_tokens& rows, bfloat16* out,
                void* scratch, stream_ref stream = {});

}  // namespace baton
