#include "runtime/window.hpp"

#include <fmt/format.h>

#include "baton/error.hpp"
#include "runtime/on_cuda.hpp"
#include "runtime/window_blocks.hpp"
#include "runtime/world_state.hpp"

namespace baton {
namespace {

void agree_on_size(const bootstrap::group& g, std::size_t bytes, const std::string& purpose) {
  const auto all = bootstrap::gather(g, static_cast<std::uint64_t>(bytes));
  for (std::size_t r = 0; r < all.size(); ++r)
    if (all[r] != all[0])
      throw transport_error{
          fmt::format("ranks disagree about the window for {}: rank 0 asks for {} bytes, rank {} for {}",
                      purpose, all[0], r, all[r])};
}

std::unique_ptr<symmetric_window> make_window_of(const world& world, const bootstrap::group& g,
                                                 std::size_t bytes, const memory_use& use) {
  return world.device() == device_kind::cuda ? on_cuda::make_window(world, g, bytes, use)
                                             : make_window_on_host(world, g, bytes, use);
}

}  // namespace

void require_memory_of_all(const world& world, std::size_t bytes, const std::string& purpose,
                           const std::string& knob) {
  // On CUDA the driver gives no more than there is.
  if (world.device() == device_kind::cpu)
    require_host_memory_of_all(world.state().peers(), bytes, {purpose, knob});
}

std::unique_ptr<symmetric_window> make_window(const world& world, std::size_t bytes,
                                              const std::string& purpose, const std::string& knob) {
  if (!world.state().is_of_one_machine)
    throw unsupported{
        fmt::format("{}: the ranks are on several machines, between which there is no shared memory; only "
                    "communicators with p2p groups (ep_config::p2p_group_size) reach beyond one",
                    purpose)};
  agree_on_size(world.state().peers(), bytes, purpose);
  return make_window_of(world, world.state().peers(), bytes, {purpose, knob});
}

std::unique_ptr<symmetric_window> make_private_memory(const world& world, std::size_t bytes,
                                                      const std::string& purpose, const std::string& knob) {
  return make_window_of(world, {.rank = 0, .size = 1, .all_gather = {}}, bytes, {purpose, knob});
}

}  // namespace baton
