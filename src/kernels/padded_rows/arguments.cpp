#include "kernels/padded_rows/arguments.hpp"

#include <cstdint>

#include "base/math.hpp"
#include "kernels/call_arguments.hpp"
#include "kernels/padded_rows/params.hpp"

namespace baton::padded {
namespace {

constexpr std::uintptr_t vectors = 16;

struct places_used {
  int capacity, num_sms, row_bytes;
};

/// What a dispatch left, and as many places as the kernel can count.
void require_rows(const char* call, const received_tokens& rows, const places_used& of) {
  const int row_bytes = of.row_bytes;
  if (rows.token_rows != nullptr)
    refuse_call(call,
                "rows.token_rows is given; rows must have a token each, as ep_rows::by_expert leaves them");
  if (rows.num_local_experts < 0 || rows.num_local_experts > max_experts)
    refuse_call(call, "rows.num_local_experts is {}; it must be 0 to {}", rows.num_local_experts,
                max_experts);
  if (rows.hidden <= 0 || row_bytes % static_cast<int>(vectors) != 0)
    refuse_call(call,
                "rows.hidden is {}, which makes rows of {} bytes; they must be a positive multiple of {}",
                rows.hidden, row_bytes, vectors);
  constexpr std::int64_t most = 0x7fffffff;  // steps are counted in 31 bits
  if (rows.max_rows < 0 || std::int64_t{rows.max_rows} * ceil_div(row_bytes, step_bytes) > most)
    refuse_call(
        call,
        "rows.max_rows is {} of {} bytes; it must be at least 0, and {} steps of {} bytes in all at most",
        rows.max_rows, row_bytes, most, step_bytes);
  if (of.capacity < 1) refuse_call(call, "capacity is {}; it must be at least 1", of.capacity);
  if (of.num_sms < 0) refuse_call(call, "num_sms is {}; it must be at least 0, which means all", of.num_sms);
  if (rows.num_local_experts == 0) return;
  require_pointer(call, "rows.row_counts", rows.row_counts, alignof(std::int32_t));
  require_pointer(call, "rows.row_offsets", rows.row_offsets, alignof(std::int32_t));
}

}  // namespace

void require(const received_tokens& rows, const padded_rows& out) {
  static constexpr const char* call = "pad_rows";
  if (rows.format != token_format::bf16 && rows.format != token_format::blockwise_fp8)
    refuse_call(call, "rows.format is {}; it must be bf16 or fp8", name(rows.format));
  const format_facts facts = facts_of(rows.format);
  require_rows(call, rows, {out.capacity, out.num_sms, facts.row_bytes(rows.hidden)});
  if (rows.num_local_experts == 0) return;
  if (out.tokens != nullptr) require_pointer(call, "rows.tokens", rows.tokens, vectors);
  require_if_given(call, "out.tokens", out.tokens, vectors);
  if (out.scales != nullptr) {
    if (facts.block == 0) refuse_call(call, "out.scales is given; rows in {} have none", name(rows.format));
    if (out.scales_as_exponents && facts.row_scales(rows.hidden) % 4 != 0)
      refuse_call(call, "out.scales_as_exponents with {} scales of a row; it must be a multiple of 4",
                  facts.row_scales(rows.hidden));
    require_pointer(call, "rows.scales", rows.scales, alignof(float));
    require_pointer(call, "out.scales", out.scales, alignof(float));
  }
  if (out.source_tokens != nullptr || out.source_ranges != nullptr)
    require_pointer(call, "rows.sources", rows.sources, alignof(source_info));
  require_if_given(call, "out.row_counts", out.row_counts, alignof(std::int32_t));
  require_if_given(call, "out.source_tokens", out.source_tokens, alignof(std::int32_t));
  require_if_given(call, "out.source_ranges", out.source_ranges, alignof(std::int64_t));
}

void require_way_back(const received_tokens& rows, const padded_answers& from, const bfloat16* out) {
  static constexpr const char* call = "unpad_rows";
  require_rows(call, rows,
               {from.capacity, from.num_sms, facts_of(token_format::bf16).row_bytes(rows.hidden)});
  if (rows.num_local_experts == 0) return;
  require_pointer(call, "padded.values", from.values, vectors);
  require_pointer(call, "out", out, vectors);
}

}  // namespace baton::padded
