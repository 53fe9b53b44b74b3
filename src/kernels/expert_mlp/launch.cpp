#include "kernels/expert_mlp/launch.hpp"

#include "base/constant.hpp"
#include "kernels/expert_mlp/arguments.hpp"
#include "kernels/expert_mlp/config.hpp"
#include "kernels/expert_mlp/cpu.hpp"
#include "kernels/expert_mlp/params.hpp"
#include "runtime/launch_on_cuda.hpp"
#include "sim/machine.hpp"

namespace baton::expert_mlp_kernels {

template <class Config>
struct expert_mlp_kernel;  // device code: kernel.cuh

namespace {

/// Enough blocks to fill the rank's SMs, and no more than the largest possible number of tiles.
template <config C>
void launch_as(const world& w, const params& p, stream_ref stream) {
  const long long row_tiles = p.max_rows / block_rows + p.num_experts;
  const long long tiles = row_tiles * (p.n / block_columns(C));
  const int blocks = static_cast<int>(smaller<long long>(tiles, sms_of(w) * C.blocks_per_sm));
  const launch_grid grid{blocks, num_threads, block_plan{C}.bytes};
  launch_on_cuda<expert_mlp_kernel<constant<C>>>(w, grid, p, w.state().limits(), stream);
}

void place_scales(const received_tokens& rows, params& p) {
  p.scales = static_cast<const float*>(rows.scales);
  const bool by_column = rows.scales_layout == scale_layout::column_major;
  p.scale_block = by_column ? rows.max_rows : 1;
  p.scale_row = by_column                    ? 1
                : rows.token_rows != nullptr ? rows.row_bytes / static_cast<int>(sizeof(float))
                                             : facts_of(rows.format).row_scales(rows.hidden);
}

void launch_both_steps(const world& w, const expert_weights& weights, const received_tokens& rows,
                       bfloat16* out, void* scratch, stream_ref stream) {
  auto* intermediate = static_cast<bfloat16*>(scratch);
  params p{};
  p.row_offsets = rows.row_offsets;
  p.row_counts = rows.row_counts;
  p.num_experts = rows.num_local_experts;
  p.max_rows = rows.max_rows;

  p.a = rows.tokens;
  p.row_bytes = facts_of(rows.format).row_bytes(rows.hidden);
  if (rows.format != token_format::bf16) place_scales(rows, p);
  if (rows.token_rows != nullptr) {
    p.token_rows = rows.token_rows;
    p.num_token_rows = rows.max_token_rows;
    p.row_bytes = rows.row_bytes;
  }
  p.weights = static_cast<const bfloat16*>(weights.gate);
  p.up = static_cast<const bfloat16*>(weights.up);
  p.out = intermediate;
  p.n = weights.intermediate;
  p.k = weights.hidden;
  if (rows.format == token_format::bf16)
    launch_as<gate_up_bf16>(w, p, stream);
  else
    launch_as<gate_up_fp8>(w, p, stream);

  p.a = intermediate;
  p.token_rows = nullptr;
  p.row_bytes = static_cast<int>(sizeof(bfloat16)) * weights.intermediate;
  p.scales = nullptr;
  p.weights = static_cast<const bfloat16*>(weights.down);
  p.up = nullptr;
  p.out = out;
  p.n = weights.hidden;
  p.k = weights.intermediate;
  launch_as<down_bf16>(w, p, stream);
}

}  // namespace

std::size_t scratch_bytes(const expert_weights& weights, int max_rows, device_kind device) {
  require_sizes(weights, max_rows);
  if (device == device_kind::cpu) return 0;
  return static_cast<std::size_t>(max_rows) * static_cast<std::size_t>(weights.intermediate) *
         sizeof(bfloat16);
}

void run(const world& world, const expert_weights& weights, const received_tokens& rows, bfloat16* out,
         void* scratch, stream_ref stream) {
  require(world.device(), weights, rows, out, scratch);
  if (rows.max_rows == 0 || rows.num_local_experts == 0) return;
  if (world.device() == device_kind::cuda)
    return launch_both_steps(world, weights, rows, out, scratch, stream);
  const auto work = [weights, rows, out] { expert_mlp_cpu::run(weights, rows, out); };
  world.state().machine->host(world.rank(), work, stream.native);
}

}  // namespace baton::expert_mlp_kernels
