#include "kernels/row_formats/arguments.hpp"

#include <fmt/format.h>

#include <cstdint>

#include "baton/error.hpp"
#include "kernels/call_arguments.hpp"
#include "kernels/row_formats/params.hpp"

namespace baton::row_formats {
namespace {

const char* call_of(const request& a) {
  return a.from == source::silu ? "fused_silu" : "quantise";
}

void require_format(const request& a) {
  const formatted_rows& out = a.out;
  const int format = static_cast<int>(out.format), layout = static_cast<int>(out.layout);
  if (format < 0 || format > static_cast<int>(token_format::nvfp4))
    refuse_call(call_of(a), "out.format is {}, which is no token_format", format);
  if (layout < 0 || layout > static_cast<int>(scale_layout::tiled_128x4))
    refuse_call(call_of(a), "out.layout is {}, which is no scale_layout", layout);
  if (out.format == token_format::bf16 && a.from == source::bf16)
    refuse_call(call_of(a), "out.format is bf16, as the rows are already; choose another, or copy them");
  const format_facts facts = facts_of(out.format);
  if (out.layout == scale_layout::tiled_128x4 && facts.scale_bytes != 1)
    refuse_call(call_of(a), "out.layout is tiled_128x4, which takes scales of one byte; those of {} have {}",
                name(out.format), facts.scale_bytes);
  if (a.columns <= 0 || a.columns % facts.multiple != 0)
    refuse_call(call_of(a), "columns is {}; with {} it must be a positive multiple of {}", a.columns,
                name(out.format), facts.multiple);
}

void require_rows(const request& a) {
  const row_selection& rows = a.rows;
  constexpr std::int64_t most = std::int64_t{1}
                                << 38;  // the kernel counts steps of at least 256 values in 31 bits
  if (rows.max_rows < 0 || std::int64_t{rows.max_rows} * a.columns > most)
    refuse_call(call_of(a),
                "rows.max_rows is {} of {} values; it must be at least 0, and {} values in all at most",
                rows.max_rows, a.columns, most);
  if (rows.num_sms < 0)
    refuse_call(call_of(a), "rows.num_sms is {}; it must be at least 0, which means all", rows.num_sms);
  if (rows.counts == nullptr) {
    if (rows.num_ranges != 0)
      refuse_call(
          call_of(a),
          "rows.num_ranges is {} and rows.counts is null; give the rows of each range, or 0 ranges for "
          "all rows",
          rows.num_ranges);
    return;
  }
  require_pointer(call_of(a), "rows.counts", rows.counts, alignof(std::int32_t));
  if (rows.num_ranges < 1 || rows.num_ranges > max_ranges)
    refuse_call(call_of(a), "rows.num_ranges is {}; with rows.counts it must be 1 to {}", rows.num_ranges,
                max_ranges);
  if (rows.firsts != nullptr)
    require_pointer(call_of(a), "rows.firsts", rows.firsts, alignof(std::int32_t));
  else if (rows.num_ranges != 1)
    refuse_call(call_of(a),
                "rows.firsts is null and rows.num_ranges is {}; several ranges need their first rows",
                rows.num_ranges);
}

}  // namespace

void require(const request& a) {
  require_format(a);
  require_rows(a);
  if (a.rows.max_rows == 0) return;
  constexpr std::uintptr_t vectors = 16;
  require_pointer(call_of(a), a.from == source::silu ? "gate_up" : "in", a.in, vectors);
  require_pointer(call_of(a), "out.values", a.out.values, vectors);
  if (facts_of(a.out.format).block > 0)
    require_pointer(call_of(a), "out.scales", a.out.scales,
                    static_cast<std::uintptr_t>(facts_of(a.out.format).scale_bytes));
  if (a.out.tensor_scale != nullptr)
    require_pointer(call_of(a), "out.tensor_scale", a.out.tensor_scale, alignof(float));
}

}  // namespace baton::row_formats
