#include "kernels/expert_mlp/launch.hpp"

#include "kernels/expert_mlp/arguments.hpp"
#include "kernels/expert_mlp/kernel.cuh"
#include "runtime/device_guard_cuda.hpp"
#include "runtime/device_memory.hpp"
#include "runtime/error.hpp"

namespace baton::expert_mlp_cuda {
namespace {

/// Enough blocks to fill the rank's SMs, and no more than the largest possible number of tiles.
template <config C>
void launch_as(const params& p, int sms, cudaStream_t stream) {
  constexpr auto entry = kernel<constant<C>>;
  check(cudaFuncSetAttribute(entry, cudaFuncAttributeMaxDynamicSharedMemorySize, smem_bytes(C)));
  const long long row_tiles = p.max_rows / block_rows + p.num_experts;
  const long long tiles = row_tiles * (p.n / block_columns(C));
  cudaLaunchConfig_t launch{};
  launch.gridDim = dim3(static_cast<unsigned>(smaller<long long>(tiles, sms * C.blocks_per_sm)));
  launch.blockDim = dim3(num_threads);
  launch.dynamicSmemBytes = smem_bytes(C);
  launch.stream = stream;
  check(cudaLaunchKernelEx(&launch, entry, p));
}

}  // namespace

std::size_t scratch_bytes(const expert_weights& weights, int max_rows) {
  return static_cast<std::size_t>(max_rows) * static_cast<std::size_t>(weights.intermediate) *
         sizeof(bfloat16);
}

void run(const world& world, const expert_weights& weights, const received_tokens& rows, bfloat16* out,
         void* scratch, stream_ref stream) {
  require(weights, rows, out, scratch);
  if (rows.max_rows == 0 || rows.num_local_experts == 0) return;
  const device_guard guard{world.device_index()};
  const auto native = static_cast<cudaStream_t>(stream.native);
  const int sms = sms_of(world);
  auto* intermediate = static_cast<bfloat16*>(scratch);
  params p{};
  p.row_offsets = rows.row_offsets;
  p.row_counts = rows.row_counts;
  p.num_experts = rows.num_local_experts;
  p.max_rows = rows.max_rows;

  p.a = rows.tokens;
  p.scales = rows.scales;
  p.weights = weights.gate;
  p.up = weights.up;
  p.out = intermediate;
  p.n = weights.intermediate;
  p.k = weights.hidden;
  if (rows.format == token_format::bf16)
    launch_as<gate_up_bf16>(p, sms, native);
  else
    launch_as<gate_up_fp8>(p, sms, native);

  p.a = intermediate;
  p.scales = nullptr;
  p.weights = weights.down;
  p.up = nullptr;
  p.out = out;
  p.n = weights.hidden;
  p.k = weights.intermediate;
  launch_as<down_bf16>(p, sms, native);
}

}  // namespace baton::expert_mlp_cuda
