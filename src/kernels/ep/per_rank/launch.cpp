#include "kernels/ep/per_rank/launch.hpp"

#include <fmt/format.h>

#include "kernels/ep/per_rank/combine.hpp"
#include "kernels/ep/per_rank/dispatch.hpp"
#include "kernels/ep/per_rank/grid.hpp"
#include "kernels/ep/per_rank/known_ranks.hpp"
#include "kernels/ep/with_tokens.hpp"
#include "kernels/launch.hpp"

namespace baton::ep::per_rank {
namespace {

/// On the CPU machine the kernels that take any number of ranks, on GPUs those for this number, if there are.
template <template <int> class Kernel, token_format Format = token_format::bf16, class Params>
void launch_kernel(const world& w, const launch_grid& grid, const Params& p, stream_ref stream) {
  if (w.device() == device_kind::cpu)
    return launch_on_cpu<Kernel<0>>(w, grid, typename Kernel<0>::params{p}, stream);
  with_known_ranks<is_compiled_for_each(Format)>(p.s.num_ranks, [&](auto ranks) {
    using kernel = Kernel<ranks.value>;
    launch_on_cuda<kernel>(w, grid, typename kernel::params{p}, w.state().limits(grid.slot), stream);
  });
}

template <class Format, class Id>
struct dispatch_of {
  template <int KnownRanks>
  using kernel = dispatch_kernel<Format, KnownRanks, Id>;
};
template <class Output>
struct combine_of {
  template <int KnownRanks>
  using kernel = combine_kernel<Output, KnownRanks>;
};

}  // namespace

std::string why_not(const shape& s) {
  const std::uint32_t bytes = dispatch_plan{s, max_warps}.bytes;
  if (bytes <= most_shared_bytes) return {};
  return fmt::format(
      "num_max_tokens_per_rank: with layout per_rank a block keeps the routing of {} tokens of {} ranks in "
      "shared memory: "
      "{} bytes, and {} are there; lower it, or let tokens travel in chunks (transfer)",
      s.max_tokens, s.num_ranks, bytes, most_shared_bytes);
}

void launch(const world& w, const endpoint& end, const launch_limits& limits, const round_input& in,
            stream_ref stream) {
  const role_grid g = grid_of_dispatch(end, limits, in.num_tokens);
  const launch_grid grid{.blocks = g.blocks,
                         .threads = g.threads(),
                         .shared_bytes = dispatch_plan{end.s, g.senders}.bytes,
                         .begins_early = limits.begin_early(),
                         .slot = limits.slot};
  const dispatch_params p = end.dispatch(in, g.senders, limits.which != half::send);
  with_tokens(end.s.format, in.tokens_are_given, [&]<class Format>() {
    const auto launch_with = [&]<class Id>(const Id*) {
      launch_kernel<dispatch_of<Format, Id>::template kernel, Format::format>(w, grid, p, stream);
    };
    constexpr const any_ids* any = nullptr;
    if constexpr (!is_compiled_for_each(Format::format))
      launch_with(any);
    else if (in.replicas.replica_counts != nullptr)
      launch_with(any);
    else
      with_width(in.topk_idx, launch_with);
  });
}

template <class Output>
void launch(const world& w, const endpoint& end, const launch_limits& limits, const combine_input& in,
            const Output& output, stream_ref stream) {
  const role_grid g = grid_of_combine(end, limits, in.num_tokens);
  const launch_grid grid{
      .blocks = g.blocks, .threads = g.threads(), .begins_early = limits.begin_early(), .slot = limits.slot};
  launch_kernel<combine_of<Output>::template kernel>(
      w, grid, end.combine(in, g.senders, g.receivers > 0, output), stream);
}
using limits = launch_limits;
template void launch(const world&, const endpoint&, const limits&, const combine_input&, const store_fp32&,
                     stream_ref);
template void launch(const world&, const endpoint&, const limits&, const combine_input&, const store_bf16&,
                     stream_ref);

}  // namespace baton::ep::per_rank
