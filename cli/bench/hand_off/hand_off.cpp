#include "cli/bench/hand_off/hand_off.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <utility>

#include "baton/device_buffer.hpp"
#include "baton/error.hpp"
#include "cli/bench/hand_off/params.hpp"
#include "cli/bench/require_within.hpp"
#include "protocol/ring/ring_buffer.hpp"
#include "runtime/launch_on_cuda.hpp"

namespace baton::hand_off {

template <ring_strategy, int stages>
struct hand_off_kernel;  // device code: kernel.cuh

namespace {

void require_counted(const char* what, int value) {
  if (!is_counted(value))
    throw invalid_argument{fmt::format("{}: {} is not one of {}", what, value, fmt::join(counts, ", "))};
}

template <ring_strategy S, int stages>
void launch_as(const world& w, const point& at, const params& p) {
  shared_plan block;
  take_ring<strategy_at<S, stages, most_readers>>(block, 0);
  const launch_grid grid{at.blocks, (1 + at.readers) * warp_lanes, block.bytes};
  launch_on_cuda<hand_off_kernel<S, stages>>(w, grid, p, w.state().limits(), {});
}

template <ring_strategy S, std::size_t... i>
void launch_with(const world& w, const point& at, const params& p, std::index_sequence<i...>) {
  ((at.stages == counts[i] ? launch_as<S, counts[i]>(w, at, p) : void()), ...);
}

void launch(const world& w, const point& at, const params& p) {
  constexpr auto stages = std::make_index_sequence<counts.size()>{};
  switch (at.strategy) {
    case ring_strategy::single_counter:
      return launch_with<ring_strategy::single_counter>(w, at, p, stages);
    case ring_strategy::split_counter:
      return launch_with<ring_strategy::split_counter>(w, at, p, stages);
    case ring_strategy::per_reader_flags:
      return launch_with<ring_strategy::per_reader_flags>(w, at, p, stages);
    default:
      return launch_with<ring_strategy::mbarrier>(w, at, p, stages);
  }
}

}  // namespace

std::vector<double> measure(const world& world, const point& at) {
  require_counted("stages", at.stages);
  require_counted("readers", at.readers);
  cli::require_within("hand_offs", at.hand_offs, 1, 1 << 24);
  cli::require_within("blocks", at.blocks, 1, 1 << 16);
  if (world.device() == device_kind::cpu)
    throw unsupported{"cycles of a hand-off are measured on a GPU only"};
  device_buffer<std::uint64_t> cycles{world, static_cast<std::size_t>(at.blocks), {"cycles", "lower blocks"}};
  launch(world, at, {at.readers, at.hand_offs, cycles.data()});
  std::vector<double> each;
  for (const std::uint64_t c : cycles.to_host()) each.push_back(static_cast<double>(c) / at.hand_offs);
  return each;
}

}  // namespace baton::hand_off
