#include "kernels/row_formats/launch.hpp"

#include "kernels/launch.hpp"
#include "kernels/row_formats/arguments.hpp"
#include "kernels/row_formats/kernel.hpp"

namespace baton::row_formats {
namespace {

constexpr int threads_on_cpu = 64;

params params_of(const request& a, int steps) {
  params p{};
  p.in = a.in;
  p.values = a.out.values;
  p.scales = a.out.scales;
  p.tensor_scale = a.out.tensor_scale;
  p.counts = a.rows.counts;
  p.firsts = a.rows.firsts;
  p.places = {a.out.layout, a.rows.max_rows, facts_of(a.out.format).row_scales(a.columns)};
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

}  // namespace

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
