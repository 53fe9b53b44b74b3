#include "kernels/expert_mlp/arguments.hpp"

#include <fmt/format.h>

#include <cstdint>

#include "baton/error.hpp"
#include "kernels/call_arguments.hpp"

namespace baton::expert_mlp_kernels {
namespace {

/// Rows of a matrix begin at multiples of 16 bytes where the copy engine reads them.
constexpr int row_multiple(device_kind device, weight_format weights) {
  return device == device_kind::cuda && weights == weight_format::block_fp8 ? 16 : 8;
}

constexpr const char* call = "expert_mlp";

void require_multiple(const char* name, int value, int of) {
  if (value < of || value % of != 0)
    refuse_call(call, "{} is {}; it must be a positive multiple of {}", name, value, of);
}

void require_count(const char* name, int value) {
  if (value < 0) refuse_call(call, "{} is {}; it must be at least 0", name, value);
}

/// Of tokens that have a row each.
void require_token_rows(const received_tokens& rows) {
  const int least = facts_of(rows.format).row_bytes(rows.hidden);
  if (rows.max_token_rows < 1)
    refuse_call(call, "rows.max_token_rows is {}; it must be at least 1", rows.max_token_rows);
  if (rows.row_bytes < least || rows.row_bytes % 16 != 0)
    refuse_call(
        call, "rows.row_bytes is {}; it must be a multiple of 16 that holds the {} bytes of a token's values",
        rows.row_bytes, least);
  if (rows.scales != nullptr && rows.scales_layout != scale_layout::row_major)
    refuse_call(call, "rows.scales_layout is {}; with token_rows it must be row_major",
                name(rows.scales_layout));
  require_pointer(call, "rows.token_rows", rows.token_rows, alignof(std::int32_t));
}

void require_weights(device_kind device, const expert_weights& w) {
  const auto values = device == device_kind::cuda       ? std::uintptr_t{16}
                      : w.format == weight_format::bf16 ? alignof(bfloat16)
                                                        : 1;
  require_pointer(call, "weights.gate", w.gate, values);
  require_pointer(call, "weights.up", w.up, values);
  require_pointer(call, "weights.down", w.down, values);
  const auto bias = device == device_kind::cuda ? std::uintptr_t{16} : alignof(bfloat16);
  require_if_given(call, "weights.gate_bias", w.gate_bias, bias);
  require_if_given(call, "weights.up_bias", w.up_bias, bias);
  require_if_given(call, "weights.down_bias", w.down_bias, bias);
  if (w.format == weight_format::bf16) return;
  require_pointer(call, "weights.gate_scales", w.gate_scales, alignof(float));
  require_pointer(call, "weights.up_scales", w.up_scales, alignof(float));
  require_pointer(call, "weights.down_scales", w.down_scales, alignof(float));
}

void require_shape(device_kind device, const expert_weights& w, const received_tokens& rows) {
  if (rows.format < token_format::bf16 || rows.format > token_format::nvfp4)
    refuse_call(call, "rows.format is {}, which is no token_format", static_cast<int>(rows.format));
  if (w.format < weight_format::bf16 || w.format > weight_format::block_fp8)
    refuse_call(call, "weights.format is {}, which is no weight_format", static_cast<int>(w.format));
  if (w.gated_by != gating::silu && w.gated_by != gating::clamped)
    refuse_call(call, "weights.gated_by is {}, which is no gating", static_cast<int>(w.gated_by));
  require_multiple("hidden", w.hidden, row_multiple(device, w.format));
  require_multiple("intermediate", w.intermediate, row_multiple(device, w.format));
  if (w.hidden % facts_of(rows.format).multiple != 0)
    refuse_call(call, "hidden is {}; with {} rows it must be a multiple of {}", w.hidden, name(rows.format),
                facts_of(rows.format).multiple);
  if (rows.format == token_format::blockwise_fp8 && rows.scales_layout == scale_layout::tiled_128x4)
    refuse_call(call, "rows.scales_layout is {}; of fp8 rows it must be column_major or row_major",
                name(rows.scales_layout));
  if (w.hidden != rows.hidden)
    refuse_call(call, "weights.hidden is {}, rows.hidden is {}; they must agree", w.hidden, rows.hidden);
  if (w.num_local_experts != rows.num_local_experts)
    refuse_call(call, "weights has {} local experts, rows has {}; they must agree", w.num_local_experts,
                rows.num_local_experts);
  if (w.num_local_experts < 0 || w.num_local_experts > max_local_experts)
    refuse_call(call, "num_local_experts is {}; it must be 0 to {}", w.num_local_experts, max_local_experts);
  require_count("weights.num_sms", w.num_sms);
  require_count("max_rows", rows.max_rows);
}

}  // namespace

void require_sizes(const expert_weights& weights, const received_tokens& rows) {
  require_count("rows.max_rows", rows.max_rows);
  require_count("rows.hidden", rows.hidden);
  require_count("intermediate", weights.intermediate);
}

void require(device_kind device, const expert_weights& weights, const received_tokens& rows,
             const bfloat16* out, const void* scratch) {
  require_shape(device, weights, rows);
  if (rows.max_rows == 0 || rows.num_local_experts == 0) return;
  const bool cuda = device == device_kind::cuda;
  require_weights(device, weights);
  require_pointer(call, "rows.tokens", rows.tokens, 16);
  if (rows.token_rows != nullptr) require_token_rows(rows);
  require_pointer(call, "rows.row_offsets", rows.row_offsets, alignof(std::int32_t));
  require_pointer(call, "rows.row_counts", rows.row_counts, alignof(std::int32_t));
  if (rows.format != token_format::bf16)
    require_pointer(call, "rows.scales", rows.scales,
                    static_cast<std::uintptr_t>(facts_of(rows.format).scale_bytes));
  require_if_given(call, "rows.row_weights", rows.row_weights, alignof(float));
  require_pointer(call, "out", out, 16);
  if (cuda) require_pointer(call, "scratch", scratch, 256);
}

}  // namespace baton::expert_mlp_kernels
