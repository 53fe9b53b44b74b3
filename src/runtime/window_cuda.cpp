// The blocks of a symmetric window on GPUs.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "baton/error.hpp"
#include "bootstrap/exchange_descriptors.hpp"
#include "runtime/device_guard_cuda.hpp"
#include "runtime/error_cuda.hpp"
#include "runtime/on_cuda.hpp"
#include "runtime/physical_memory_cuda.hpp"
#include "runtime/window_blocks.hpp"

namespace baton::on_cuda {
namespace {

using blocks = std::vector<std::shared_ptr<std::byte>>;

/// This rank's own block, zeroed, reachable from `devices`.
struct own_block {
  std::optional<physical_memory> memory;
  std::shared_ptr<std::byte> mapped;
  std::uint64_t bytes = 0;

  own_block(const detail::world_state& state, std::size_t wanted, std::span<const int> devices,
            const memory_use& use) {
    const int device = state.device_index;
    const bool shareable = !state.in_process;
    require_mapping_support(device, shareable);
    bytes = align_to_granularity(device, wanted, shareable);
    memory.emplace(physical_memory::create(device, bytes, shareable, use));
    mapped = memory->map(devices, device);
    fill_now(device, mapped.get(), 0, bytes);
  }
};

std::vector<int> each_once(std::vector<int> devices) {
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  return devices;
}

/// One address serves all devices of the process, so pointers are exchanged as they are.
blocks within_process(const detail::world_state& state, std::size_t bytes, const memory_use& use) {
  const bootstrap::group g = state.peers();
  std::optional<own_block> own;
  bootstrap::together(g, [&] { own.emplace(state, bytes, each_once(state.devices), use); });
  return share_in_process(g, own->mapped);
}

std::shared_ptr<std::byte> map_peer(const detail::world_state& state, int peer,
                                    const bootstrap::file_descriptor& fd, std::size_t bytes) {
  try {
    return physical_memory::import(fd, bytes).map(std::span{&state.device_index, 1}, state.device_index);
  } catch (const cuda_error& e) {
    throw unsupported{
        fmt::format("device {} of rank {} cannot map the memory of rank {}'s device: {}. Both must be GPUs "
                    "that NVLink connects, "
                    "with one driver",
                    state.device_index, state.rank, peer, e.what())};
  }
}

blocks between_processes(const detail::world_state& state, std::size_t bytes, const memory_use& use) {
  const bootstrap::group g = state.peers();
  std::optional<own_block> own;
  bootstrap::file_descriptor exported;
  bootstrap::together(g, [&] {
    own.emplace(state, bytes, std::span{&state.device_index, 1}, use);
    exported = own->memory->export_descriptor();
  });
  const std::vector<std::uint64_t> sizes = bootstrap::gather(g, own->bytes);
  const std::vector<bootstrap::file_descriptor> received = bootstrap::exchange_descriptors(g, exported.get());
  blocks all;
  bootstrap::together(g, [&] {
    for (int r = 0; r < g.size; ++r) {
      const auto i = static_cast<std::size_t>(r);
      all.push_back(r == g.rank ? own->mapped : map_peer(state, r, received[i], sizes[i]));
    }
  });
  return all;
}

}  // namespace

blocks make_blocks(const detail::world_state& state, std::size_t bytes, const memory_use& use) {
  std::optional<device_guard> guard;
  bootstrap::together(state.peers(), [&] {
    guard.emplace(state.device_index);
    check(cudaFree(nullptr), "making the device's context current");  // this thread may be new to CUDA
  });
  return state.in_process ? within_process(state, bytes, use) : between_processes(state, bytes, use);
}

}  // namespace baton::on_cuda
