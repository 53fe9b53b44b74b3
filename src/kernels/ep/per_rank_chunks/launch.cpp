#include "kernels/ep/per_rank_chunks/launch.hpp"

#include <fmt/format.h>

#include <type_traits>

#include "kernels/ep/per_rank_chunks/combine.hpp"
#include "kernels/ep/per_rank_chunks/dispatch.hpp"
#include "kernels/ep/per_rank_chunks/far_kernels.hpp"
#include "kernels/ep/per_rank_chunks/grid.hpp"
#include "kernels/ep/per_rank_chunks/team_combine.hpp"
#include "kernels/ep/with_tokens.hpp"
#include "kernels/launch.hpp"
#include "runtime/nvshmem.hpp"

namespace baton::ep::per_rank_chunks {

/// Combine counts the vec16s of experts' outputs, and of ranks' sums, in 32 bits (weighted_rows).
std::string why_not(const shape& s) {
  constexpr std::int64_t most = std::int64_t{1} << 32;
  const std::int64_t sums =
      std::int64_t{s.num_ranks} * s.max_tokens * (cells{s}.sum_bytes(s, s.sum_format()) / int{sizeof(vec16)});
  if (sums > most)
    return fmt::format(
        "num_max_tokens_per_rank: with layout per_rank in chunks {} ranks' sums of {} tokens are {} GiB of a "
        "window, and "
        "combine finds sums in the first 64 GiB; lower it",
        s.num_ranks, s.max_tokens, sums * std::int64_t{sizeof(vec16)} >> 30);
  const std::int64_t vectors = std::int64_t{s.max_rows()} * (s.hidden / columns_of_lane);
  if (vectors <= most) return {};
  return fmt::format(
      "num_max_tokens_per_rank: with layout per_rank in chunks the experts' outputs of a rank may be {} "
      "rows of {} values, {} GiB, and combine finds rows in the first 64 GiB; lower it, or top_k, or use "
      "layout per_expert",
      s.max_rows(), s.hidden, vectors * std::int64_t{sizeof(vec16)} >> 30);
}

namespace {

using kernel_beyond = nvshmem_launch::kernel;

/// Ranks beyond the p2p group are reached through the CPU machine's network, or NVSHMEM.
template <class Params>
void launch_with_nvshmem(const world& w, kernel_beyond what, const launch_grid& grid, const Params& p,
                         bool tokens_are_given, stream_ref stream) {
  launch_beyond(w, {.what = what,
                    .tokens_are_given = tokens_are_given,
                    .has_two_levels = Params::has_two_levels,
                    .grid = grid,
                    .params = &p,
                    .params_bytes = sizeof p,
                    .by = {w.rank(), w.state().limits(grid.slot)},
                    .stream = stream.native});
}

/// `Params`: far_params, or two_level_params.
template <class Params>
void launch_far_dispatch(const world& w, const launch_grid& grid, const Params& p, bool tokens_are_given,
                         stream_ref stream) {
  if (w.device() == device_kind::cuda)
    return launch_with_nvshmem(w, kernel_beyond::dispatch_chunks, grid, p, tokens_are_given, stream);
  with_far_dispatch(p, tokens_are_given, [&]<class Kernel>() { launch_on_cpu<Kernel>(w, grid, p, stream); });
}

template <class Params>
void launch_far_combine(const world& w, const launch_grid& grid, const Params& p, stream_ref stream) {
  constexpr kernel_beyond what = std::is_same_v<decltype(p.output), store_fp32>
                                     ? kernel_beyond::combine_chunks_to_fp32
                                     : kernel_beyond::combine_chunks_to_bf16;
  if (w.device() == device_kind::cuda) return launch_with_nvshmem(w, what, grid, p, false, stream);
  with_far_combine(p, [&]<class Kernel>() { launch_on_cpu<Kernel>(w, grid, p, stream); });
}

}  // namespace

void launch(const world& w, const endpoint& end, const launch_limits& limits, const round_input& in,
            stream_ref stream) {
  const chunk_grid g = grid_of_dispatch(end, limits);
  const dispatch_params p = end.dispatch(in, g.roles, limits.which != half::send);
  const launch_grid grid{.blocks = g.blocks,
                         .threads = g.threads(),
                         .shared_bytes = dispatch_plan(p.window, g.roles, end.has_two_levels()).bytes,
                         .begins_early = limits.begin_early(),
                         .slot = limits.slot,
                         .only_loads = limits.only_loads};
  if (end.has_two_levels())
    return launch_far_dispatch(w, grid, end.with_two_levels(p), in.tokens_are_given, stream);
  if (end.goes_beyond_group())
    return launch_far_dispatch(w, grid, end.with_far(p), in.tokens_are_given, stream);
  with_tokens(end.s.format, in.tokens_are_given,
              [&]<class Format>() { baton::launch<dispatch_kernel<Format>>(w, grid, p, stream); });
}

namespace {

template <class Output>
void launch_teams(const world& w, const endpoint& end, const launch_limits& limits, const combine_input& in,
                  const Output& output, stream_ref stream) {
  const team_grid g = grid_of_teams(end, limits);
  const launch_grid grid{.blocks = g.blocks,
                         .threads = g.threads(),
                         .shared_bytes = team_plan{end.s, end.window_cells(), g.roles}.bytes,
                         .begins_early = limits.begin_early(),
                         .slot = limits.slot,
                         .only_loads = limits.only_loads};
  const combine_params<Output> p = end.combine(in, {}, true, output, g.roles);
  baton::launch<team_combine_kernel<Output>>(w, grid, p, stream);
}

}  // namespace

template <class Output>
void launch(const world& w, const endpoint& end, const launch_limits& limits, const combine_input& in,
            const Output& output, stream_ref stream) {
  if (is_in_teams(end, limits)) return launch_teams(w, end, limits, in, output, stream);
  const chunk_grid g = grid_of_combine(end, limits);
  const int keeping =
      limits.which == half::both ? g.roles.warps() : 0;  // halves have this rank's sums in memory
  const launch_grid grid{.blocks = g.blocks,
                         .threads = g.threads(),
                         .shared_bytes = combine_plan{end.s, keeping, end.has_two_levels()}.bytes,
                         .begins_early = limits.begin_early(),
                         .slot = limits.slot,
                         .only_loads = limits.only_loads};
  const combine_params<Output> p = end.combine(in, g.roles, limits.which != half::send, output);
  if (end.has_two_levels()) return launch_far_combine(w, grid, end.with_two_levels(p), stream);
  if (end.goes_beyond_group()) return launch_far_combine(w, grid, end.with_far(p), stream);
  if (end.s.fp8_sums)
    baton::launch<combine_kernel<Output, token_format::blockwise_fp8>>(w, grid, p, stream);
  else
    baton::launch<combine_kernel<Output>>(w, grid, p, stream);
}
template void launch(const world&, const endpoint&, const launch_limits&, const combine_input&,
                     const store_fp32&, stream_ref);
template void launch(const world&, const endpoint&, const launch_limits&, const combine_input&,
                     const store_bf16&, stream_ref);

}  // namespace baton::ep::per_rank_chunks
