#include "kernels/row_formats/launch.hpp"

#include "kernels/launch.hpp"
#include "kernels/row_formats/arguments.hpp"
#include "kernels/row_formats/kernel.hpp"
#include "kernels/row_formats/stored_rows.hpp"

namespace baton::row_formats {
namespace {

constexpr int threads_on_cpu = 64;

/// Scales of a row whose last block may be shorter.
int scales_of_row(token_format format, int columns) {
  const int block = facts_of(format).block;
  return block == 0 ? 0 : ceil_div(columns, block);
}

params params_of(const request& a, int steps) {
  params p{};
  if (a.stored != nullptr) {
    const received_tokens& rows = *a.stored;
    p.stored = {rows.scales,
                {rows.scales_layout, rows.max_rows, facts_of(rows.format).row_scales(rows.hidden)},
                rows.tensor_scale,
                rows.token_rows,
                rows.max_token_rows,
                rows.token_rows != nullptr ? rows.row_bytes : facts_of(rows.format).row_bytes(rows.hidden)};
  }
  p.in = a.in;
  p.values = a.out.values;
  p.scales = a.out.scales;
  p.tensor_scale = a.out.tensor_scale;
  p.counts = a.rows.counts;
  p.firsts = a.rows.firsts;
  p.places = {a.out.layout, a.rows.max_rows, scales_of_row(a.out.format, a.columns)};
  p.columns = a.columns;
  p.num_ranges = a.rows.num_ranges;
  p.steps = steps;
  p.steps_divider = divider{steps};
  return p;
}

/// As many blocks as run at a time, or as there can be work for.
template <class Kernel>
void launch_as(const world& w, const request& a, stream_ref stream) {
  const int steps = ceil_div(a.columns, values_of_step(Kernel::format));
  const int threads = w.device() == device_kind::cuda ? Kernel::bounds.max_threads : threads_on_cpu;
  const std::int64_t most =
      ceil_div(std::int64_t{a.rows.max_rows} * steps, std::int64_t{threads / warp_lanes});
  const int sms = sms_for(w, a.rows.num_sms);
  const int blocks = static_cast<int>(smaller<std::int64_t>(most, sms * Kernel::bounds.blocks_per_sm));
  baton::launch<Kernel>(w, {blocks, threads, range_plan{a.rows.num_ranges}.bytes}, params_of(a, steps),
                        stream);
}

template <class Source>
void launch_from(const world& w, const request& a, stream_ref stream) {
  switch (a.out.format) {
    case token_format::bf16:
      if constexpr (!std::is_same_v<Source, bf16_values>)
        launch_as<row_format_kernel<Source, token_format::bf16>>(w, a, stream);
      return;
    case token_format::blockwise_fp8:
      return launch_as<row_format_kernel<Source, token_format::blockwise_fp8>>(w, a, stream);
    case token_format::mxfp8:
      return launch_as<row_format_kernel<Source, token_format::mxfp8>>(w, a, stream);
    case token_format::mxfp4:
      return launch_as<row_format_kernel<Source, token_format::mxfp4>>(w, a, stream);
    case token_format::nvfp4:
      return launch_as<row_format_kernel<Source, token_format::nvfp4>>(w, a, stream);
  }
}

/// Rows of `Format` as another one.
template <token_format Format>
void restore_from(const world& w, const request& a, stream_ref stream) {
  constexpr auto bf16 = token_format::bf16, fp8 = token_format::blockwise_fp8;
  if constexpr (Format != fp8)
    if (a.out.format == fp8) return launch_as<row_format_kernel<stored_rows<Format>, fp8>>(w, a, stream);
  if constexpr (Format != bf16)
    if (a.out.format == bf16) return launch_as<row_format_kernel<stored_rows<Format>, bf16>>(w, a, stream);
}

}  // namespace

void restore(const world& w, const received_tokens& rows, const formatted_rows& out, stream_ref stream,
             int num_sms) {
  request a{.in = rows.tokens, .columns = rows.hidden, .rows = rows_of(rows), .out = out, .stored = &rows};
  a.rows.num_sms = num_sms;
  switch (rows.format) {
    case token_format::bf16:
      return restore_from<token_format::bf16>(w, a, stream);
    case token_format::blockwise_fp8:
      return restore_from<token_format::blockwise_fp8>(w, a, stream);
    case token_format::mxfp8:
      return restore_from<token_format::mxfp8>(w, a, stream);
    case token_format::mxfp4:
      return restore_from<token_format::mxfp4>(w, a, stream);
    case token_format::nvfp4:
      return restore_from<token_format::nvfp4>(w, a, stream);
  }
}

void run(const world& w, const request& a, stream_ref stream) {
  require(a);
  if (a.rows.max_rows == 0) return;
  switch (a.from) {
    case source::bf16:
      return launch_from<bf16_values>(w, a, stream);
    case source::fp32:
      return launch_from<fp32_values>(w, a, stream);
    case source::silu:
      return launch_from<silu_values>(w, a, stream);
  }
}

}  // namespace baton::row_formats
