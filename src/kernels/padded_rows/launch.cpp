#include "kernels/padded_rows/launch.hpp"

#include <algorithm>
#include <cstdint>

#include "kernels/launch.hpp"
#include "kernels/padded_rows/arguments.hpp"
#include "kernels/padded_rows/kernel.hpp"

namespace baton::padded {
namespace {

constexpr int threads_on_cpu = 64;

params params_of(const received_tokens& rows, int capacity, int row_bytes) {
  params p{};
  p.counts = rows.row_counts;
  p.firsts = rows.row_offsets;
  p.experts = rows.num_local_experts;
  p.capacity = capacity;
  p.max_rows = rows.max_rows;
  p.row_bytes = row_bytes;
  p.steps = ceil_div(row_bytes, step_bytes);
  p.steps_divider = divider{p.steps};
  return p;
}

/// As many blocks as run at a time, or as there can be work for.
template <class Kernel>
void launch_one(const world& w, const params& p, int num_sms, stream_ref stream) {
  const int threads = w.device() == device_kind::cuda ? Kernel::bounds.max_threads : threads_on_cpu;
  const std::int64_t copies = std::int64_t{p.max_rows} * p.steps,
                     told = std::int64_t{p.experts} * std::max(p.num_ranks, 1);
  const std::int64_t most = ceil_div(std::max(copies, told), std::int64_t{threads / warp_lanes});
  const int blocks =
      static_cast<int>(std::min<std::int64_t>(most, sms_for(w, num_sms) * Kernel::bounds.blocks_per_sm));
  baton::launch<Kernel>(w, {blocks, threads, row_formats::range_plan{p.experts}.bytes}, p, stream);
}

}  // namespace

void pad(const world& w, const received_tokens& rows, const padded_rows& out, stream_ref stream) {
  require(rows, out);
  if (rows.num_local_experts == 0) return;
  const format_facts facts = facts_of(rows.format);
  params p = params_of(rows, out.capacity, facts.row_bytes(rows.hidden));
  p.rows = static_cast<std::byte*>(const_cast<void*>(rows.tokens));  // which pad reads
  p.places = static_cast<std::byte*>(out.tokens);
  p.sources = rows.sources;
  if (out.scales != nullptr) {
    const int blocks = facts.row_scales(rows.hidden);
    p.scales = static_cast<const float*>(rows.scales);
    p.scale_at = {rows.scales_layout, rows.max_rows, blocks};
    p.scales_out = out.scales;
    p.as_exponents = out.scales_as_exponents;
    p.scale_columns = out.scales_as_exponents ? blocks / 4 : blocks;
  }
  p.counts_out = out.row_counts;
  p.tokens_out = out.source_tokens;
  p.ranges_out = out.source_ranges;
  p.num_ranks = w.size();
  launch_one<kernel<direction::pad>>(w, p, out.num_sms, stream);
}

void unpad(const world& w, const received_tokens& rows, const padded_answers& from, bfloat16* out,
           stream_ref stream) {
  require_way_back(rows, from, out);
  if (rows.num_local_experts == 0) return;
  params p = params_of(rows, from.capacity, facts_of(token_format::bf16).row_bytes(rows.hidden));
  p.rows = reinterpret_cast<std::byte*>(out);
  p.places = reinterpret_cast<std::byte*>(const_cast<bfloat16*>(from.values));  // which unpad reads
  launch_one<kernel<direction::unpad>>(w, p, from.num_sms, stream);
}

}  // namespace baton::padded
