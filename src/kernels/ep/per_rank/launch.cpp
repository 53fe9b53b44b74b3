#include "kernels/ep/per_rank/launch.hpp"

#include <fmt/format.h>

#include "kernels/ep/per_rank/by_flags.hpp"
#include "kernels/ep/per_rank/combine.hpp"
#include "kernels/ep/per_rank/dispatch.hpp"
#include "kernels/ep/per_rank/grid.hpp"
#include "kernels/ep/per_rank/known_ranks.hpp"
#include "kernels/ep/with_tokens.hpp"
#include "kernels/launch.hpp"

namespace baton::ep::per_rank {
namespace {

/// On the CPU machine the kernels that take any number of ranks, on GPUs those for this number, if there are.
template <class Way, template <int> class Kernel, bool for_each, class Params>
void launch_kernel(const world& w, const launch_grid& grid, const Params& p, stream_ref stream) {
  if (w.device() == device_kind::cpu)
    return launch_on_cpu<Kernel<0>>(w, grid, typename Kernel<0>::params{p}, stream);
  with_known_ranks<Way, for_each>(p.s.num_ranks, [&](auto ranks) {
    using kernel = Kernel<ranks.value>;
    launch_on_cuda<kernel>(w, grid, typename kernel::params{p}, w.state().limits(grid.slot), stream);
  });
}

template <class Format, class Id, class Way>
struct dispatch_of {
  template <int KnownRanks>
  using kernel = dispatch_kernel<Format, KnownRanks, Id, Way>;
};
template <class Output, class Way, token_format Sums>
struct combine_of {
  template <int KnownRanks>
  using kernel = combine_kernel<Output, KnownRanks, Way, Sums>;
};

template <class Way, class Endpoint>
void launch_dispatch(const world& w, const Endpoint& end, const launch_limits& limits, const round_input& in,
                     stream_ref stream) {
  const role_grid g = grid_of_dispatch(end, limits, in.num_tokens);
  const launch_grid grid{.blocks = g.blocks,
                         .threads = g.threads(),
                         .shared_bytes = dispatch_plan{end.s, g.senders}.bytes,
                         .begins_early = limits.begin_early(),
                         .slot = limits.slot,
                         .only_loads = limits.only_loads};
  const auto p = end.dispatch(in, g.senders, limits.which != half::send);
  with_tokens(end.s.format, in.tokens_are_given, [&]<class Format>() {
    if constexpr (serves<Way>(Format::format)) {
      constexpr bool for_each = is_compiled_for_each(Format::format);
      with_ids<Way, for_each>(in, [&]<class Id>(const Id*) {
        launch_kernel<Way, dispatch_of<Format, Id, Way>::template kernel, for_each>(w, grid, p, stream);
      });
    }
  });
}

template <class Way, class Endpoint, class Output>
void launch_combine(const world& w, const Endpoint& end, const launch_limits& limits, const combine_input& in,
                    const Output& output, stream_ref stream) {
  const role_grid g = grid_of_combine(end, limits, in.num_tokens);
  const launch_grid grid{.blocks = g.blocks,
                         .threads = g.threads(),
                         .begins_early = limits.begin_early(),
                         .slot = limits.slot,
                         .only_loads = limits.only_loads};
  const auto p = end.combine(in, {g.senders, g.taken_each}, g.receivers > 0, output);
  constexpr token_format bf16 = token_format::bf16, fp8 = token_format::blockwise_fp8;
  using of_pair = combine_kernel<Output, 2, Way, bf16, max_pair_combine_warps>;
  if (end.s.fp8_sums)
    launch_kernel<Way, combine_of<Output, Way, fp8>::template kernel, false>(w, grid, p, stream);
  else if (w.device() == device_kind::cuda && end.s.num_ranks == 2 &&
           g.threads() > max_combine_warps * warp_lanes)
    launch_on_cuda<of_pair>(w, grid, typename of_pair::params{p}, w.state().limits(limits.slot), stream);
  else
    launch_kernel<Way, combine_of<Output, Way, bf16>::template kernel, true>(w, grid, p, stream);
}

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
  launch_dispatch<by_lines>(w, end, limits, in, stream);
}
void launch(const world& w, const flag_endpoint& end, const launch_limits& limits, const round_input& in,
            stream_ref stream) {
  launch_dispatch<by_flags>(w, end, limits, in, stream);
}

template <class Output>
void launch(const world& w, const endpoint& end, const launch_limits& limits, const combine_input& in,
            const Output& output, stream_ref stream) {
  launch_combine<by_lines>(w, end, limits, in, output, stream);
}
template <class Output>
void launch(const world& w, const flag_endpoint& end, const launch_limits& limits, const combine_input& in,
            const Output& output, stream_ref stream) {
  launch_combine<by_flags>(w, end, limits, in, output, stream);
}
using limits = launch_limits;
template void launch(const world&, const endpoint&, const limits&, const combine_input&, const store_fp32&,
                     stream_ref);
template void launch(const world&, const endpoint&, const limits&, const combine_input&, const store_bf16&,
                     stream_ref);
template void launch(const world&, const flag_endpoint&, const limits&, const combine_input&,
                     const store_fp32&, stream_ref);
template void launch(const world&, const flag_endpoint&, const limits&, const combine_input&,
                     const store_bf16&, stream_ref);

}  // namespace baton::ep::per_rank
