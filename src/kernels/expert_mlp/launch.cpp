#include "kernels/expert_mlp/launch.hpp"

#include "kernels/expert_mlp/arguments.hpp"
#include "kernels/expert_mlp/cpu.hpp"
#include "kernels/expert_mlp/products.hpp"
#include "kernels/expert_mlp/scratch.hpp"
#include "kernels/gemm/launch.hpp"
#include "kernels/row_formats/launch.hpp"
#include "runtime/world_state.hpp"
#include "sim/machine.hpp"

namespace baton::expert_mlp_kernels {
namespace {

/// The rows as they are multiplied: those that came, or what a kernel makes of them in scratch.
received_tokens multiplied_rows(const world& w, const expert_weights& weights, const received_tokens& rows,
                                std::byte* scratch, const scratch_plan& plan, stream_ref stream) {
  const token_format needed = multiplied_as(weights.format);
  if (rows.format == needed) return rows;
  received_tokens made = rows;
  made.format = needed;
  made.tokens = scratch + plan.rows;
  made.scales = needed == token_format::bf16 ? nullptr : scratch + plan.row_scales;
  made.scales_layout = scale_layout::column_major;
  made.token_rows = nullptr;
  row_formats::restore(w, rows,
                       {.format = needed,
                        .values = scratch + plan.rows,
                        .scales = scratch + plan.row_scales,
                        .layout = scale_layout::column_major},
                       stream, weights.num_sms);
  return made;
}

template <class Value>
void multiply(const world& w, const expert_weights& weights, const received_tokens& rows, bfloat16* out,
              std::byte* scratch, stream_ref stream) {
  const scratch_plan plan{weights, rows};
  const received_tokens taken = multiplied_rows(w, weights, rows, scratch, plan, stream);
  const int sms = sms_for(w, weights.num_sms);
  auto* inner = reinterpret_cast<Value*>(scratch + plan.inner);
  auto* inner_scales = reinterpret_cast<float*>(scratch + plan.inner_scales);
  for (int first = 0; first < rows.num_local_experts; first += gemm_kernels::most_groups) {
    const some_experts some{first, smaller(rows.num_local_experts - first, gemm_kernels::most_groups)};
    gemm_kernels::run_gated(w, gate_and_up<Value>(weights, taken, some, inner, inner_scales), sms, stream);
    gemm_kernels::run(w, down<Value>(weights, taken, some, inner, inner_scales, out), sms, stream);
  }
}

}  // namespace

std::size_t scratch_bytes(const expert_weights& weights, const received_tokens& rows, device_kind device) {
  require_sizes(weights, rows);
  return device == device_kind::cpu ? 0 : scratch_plan{weights, rows}.bytes;
}

void run(const world& world, const expert_weights& weights, const received_tokens& rows, bfloat16* out,
         void* scratch, stream_ref stream) {
  require(world.device(), weights, rows, out, scratch);
  if (rows.max_rows == 0 || rows.num_local_experts == 0) return;
  if (world.device() == device_kind::cpu) {
    const auto work = [weights, rows, out] { expert_mlp_cpu::run(weights, rows, out); };
    world.state().machine->host(world.rank(), work, stream.native);
  } else if (weights.format == weight_format::bf16) {
    multiply<bfloat16>(world, weights, rows, out, static_cast<std::byte*>(scratch), stream);
  } else {
    multiply<float8_e4m3>(world, weights, rows, out, static_cast<std::byte*>(scratch), stream);
  }
}

}  // namespace baton::expert_mlp_kernels
