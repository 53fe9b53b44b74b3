#include "kernels/expert_mlp/launch.hpp"

#include "kernels/expert_mlp/arguments.hpp"
#include "kernels/expert_mlp/cpu.hpp"
#include "kernels/expert_mlp/scratch.hpp"
#include "kernels/gemm/launch.hpp"
#include "kernels/row_formats/launch.hpp"
#include "runtime/world_state.hpp"
#include "sim/machine.hpp"

namespace baton::expert_mlp_kernels {
namespace {

/// The rows as they are multiplied: those that came, or what a kernel makes of them in scratch.
received_tokens multiplied_rows(const world& w, weight_format format, const received_tokens& rows,
                                std::byte* scratch, const scratch_plan& plan, stream_ref stream) {
  const token_format needed = multiplied_as(format);
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
                       stream);
  return made;
}

/// So many experts from `first` on, as a kernel takes them at a time.
struct some_experts {
  int first, count;

  template <class T>
  const T* of(const void* matrices, int rows, int columns) const {
    return static_cast<const T*>(matrices) + std::int64_t{first} * rows * columns;
  }
};

/// What both products have in common.
template <class Operands>
Operands group_operands(const received_tokens& rows, const some_experts& some) {
  return {.m = rows.max_rows,
          .counts = rows.row_counts + some.first,
          .firsts = rows.row_offsets + some.first,
          .groups = some.count};
}

/// inner = silu(gate * x) . (up * x); `Value` is what is multiplied, and what comes out.
template <class Value>
gemm_kernels::operands<Value, Value> gate_and_up(const expert_weights& w, const received_tokens& rows,
                                                 const some_experts& some, Value* inner,
                                                 float* inner_scales) {
  auto p = group_operands<gemm_kernels::operands<Value, Value>>(rows, some);
  const int n = w.intermediate, k = w.hidden;
  p.a = static_cast<const Value*>(rows.tokens);
  p.b = some.of<Value>(w.gate, n, k);
  p.b_up = some.of<Value>(w.up, n, k);
  p.c = inner;
  p.n = n;
  p.k = k;
  if (rows.token_rows != nullptr) {
    p.a_list = rows.token_rows;
    p.a_row_bytes = rows.row_bytes;
    p.num_a_rows = rows.max_token_rows;
  }
  if (rows.scales == nullptr) return p;
  const bool by_column = rows.scales_layout == scale_layout::column_major;
  p.a_scales = static_cast<const float*>(rows.scales);
  p.a_scale_block = by_column ? rows.max_rows : 1;
  p.a_scale_row = by_column                    ? 1
                  : rows.token_rows != nullptr ? rows.row_bytes / static_cast<int>(sizeof(float))
                                               : weight_scales(k);
  p.b_scales = some.of<float>(w.gate_scales, weight_scales(n), weight_scales(k));
  p.b_up_scales = some.of<float>(w.up_scales, weight_scales(n), weight_scales(k));
  p.c_scales = inner_scales;
  return p;
}

/// out = down * inner
template <class Value>
gemm_kernels::operands<bfloat16, Value> down(const expert_weights& w, const received_tokens& rows,
                                             const some_experts& some, const Value* inner,
                                             const float* inner_scales, bfloat16* out) {
  auto p = group_operands<gemm_kernels::operands<bfloat16, Value>>(rows, some);
  p.a = inner;
  p.b = some.of<Value>(w.down, w.hidden, w.intermediate);
  p.c = out;
  p.n = w.hidden;
  p.k = w.intermediate;
  if (w.format == weight_format::bf16) return p;
  p.a_scales = inner_scales;
  p.a_scale_row = 1;
  p.a_scale_block = rows.max_rows;
  p.b_scales = some.of<float>(w.down_scales, weight_scales(w.hidden), weight_scales(w.intermediate));
  return p;
}

template <class Value>
void multiply(const world& w, const expert_weights& weights, const received_tokens& rows, bfloat16* out,
              std::byte* scratch, stream_ref stream) {
  const scratch_plan plan{weights, rows};
  const received_tokens taken = multiplied_rows(w, weights.format, rows, scratch, plan, stream);
  auto* inner = reinterpret_cast<Value*>(scratch + plan.inner);
  auto* inner_scales = reinterpret_cast<float*>(scratch + plan.inner_scales);
  const int sms = sms_of(w);
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
