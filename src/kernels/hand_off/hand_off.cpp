#include "kernels/hand_off/hand_off.hpp"

#include <fmt/format.h>

#include "baton/error.hpp"
#include "kernels/hand_off/launch.hpp"
#include "runtime/device_memory.hpp"
#include "runtime/world_state.hpp"

namespace baton::hand_off {
namespace {

void require(const char* what, int value, int most) {
  if (value < 1 || value > most)
    throw invalid_argument{fmt::format("{}: {} is not from 1 to {}", what, value, most)};
}

}  // namespace

std::vector<double> measure(const world& world, const point& at) {
  require("stages", at.stages, most_stages);
  require("readers", at.readers, most_readers);
  require("hand_offs", at.hand_offs, 1 << 24);
  require("blocks", at.blocks, 1 << 16);
  if (world.device() == device_kind::cpu)
    throw unsupported{"cycles of a hand-off are measured on a GPU only"};
  const auto blocks = static_cast<std::size_t>(at.blocks);
  const device_buffer cycles{world, blocks * sizeof(std::uint64_t), "cycles", "lower blocks"};
#if defined(BATON_CUDA)
  const params p{world.rank(), world.state().limits(), at.readers, at.hand_offs, cycles.as<std::uint64_t>()};
  launch(at, p, {});
#endif
  world.synchronize();
  std::vector<std::uint64_t> counted(blocks);
  copy_async(world, counted.data(), cycles.data(), cycles.bytes(), {});
  world.synchronize();
  std::vector<double> each;
  for (const std::uint64_t c : counted) each.push_back(static_cast<double>(c) / at.hand_offs);
  return each;
}

}  // namespace baton::hand_off
