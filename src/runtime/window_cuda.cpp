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

std::vector<int> each_once(std::vector<int> devices) {
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  return devices;
}

/// The driver's calls want the device's context, and this thread may be new to CUDA.
struct current_device {
  device_guard guard;
  explicit current_device(int device) : guard{device} {
    check(cudaFree(nullptr), "making the device's context current");
  }
};

/// Addresses are reserved once, and memory is mapped there as often as it comes and goes: own blocks made anew, and between
/// processes handed over anew. Within a process one address serves all devices, so that a rank maps its own block only, and
/// pointers are exchanged as they are.
class window_on_cuda final : public symmetric_window {
 public:
  window_on_cuda(const world& world, const bootstrap::group& g, std::size_t bytes, const memory_use& use)
      : world_{world}, group_{g}, bytes_{bytes}, use_{use} {
    const detail::world_state& state = world.state();
    std::shared_ptr<reserved_addresses> own;
    bootstrap::together(g, [&] {
      const current_device guard{device()};
      require_mapping_support(device(), is_between_processes());
      own = std::make_shared<reserved_addresses>(
          align_to_granularity(device(), bytes, is_between_processes()), device());
    });
    if (is_between_processes()) {
      reserve_for_peers(std::move(own));
    } else {
      if (g.size > 1) devices_ = each_once(state.devices);
      blocks_ = share_in_process(g, std::move(own));
    }
    map_all();
  }
  ~window_on_cuda() override { drain(world_.state()); }
  std::byte* peer(int rank) const override { return blocks_.at(static_cast<std::size_t>(rank))->data(); }
  std::size_t bytes() const override { return bytes_; }

  void release() override {
    bootstrap::together(group_, [&] { unmap(); });
  }
  void reacquire() override { map_all(); }
  void drop() noexcept override try { unmap(); } catch (const error&) {
  }

 private:
  int device() const { return world_.state().device_index; }
  bool is_between_processes() const { return group_.size > 1 && !world_.state().in_process; }
  reserved_addresses& own() const { return *blocks_[static_cast<std::size_t>(group_.rank)]; }

  void map_all() try {
    std::optional<physical_memory> memory;
    bootstrap::file_descriptor exported;
    bootstrap::together(group_, [&] {
      const current_device guard{device()};
      memory.emplace(physical_memory::create(device(), own().bytes(), is_between_processes(), use_));
      own().map(*memory, devices_);
      fill_now(device(), own().data(), 0, own().bytes());
      if (is_between_processes()) exported = memory->export_descriptor();
    });
    if (!is_between_processes()) return;
    const std::vector<bootstrap::file_descriptor> received =
        bootstrap::exchange_descriptors(group_, exported.get());
    bootstrap::together(group_, [&] {
      for (int r = 0; r < group_.size; ++r)
        if (r != group_.rank) map_peer(r, received[static_cast<std::size_t>(r)]);
    });
  } catch (...) {
    drop();
    throw;
  }
  void reserve_for_peers(std::shared_ptr<reserved_addresses> own) {
    const std::vector<std::uint64_t> sizes =
        bootstrap::gather(group_, static_cast<std::uint64_t>(own->bytes()));
    bootstrap::together(group_, [&] {
      const current_device guard{device()};
      for (int r = 0; r < group_.size; ++r)
        blocks_.push_back(r == group_.rank ? own
                                           : std::make_shared<reserved_addresses>(
                                                 sizes[static_cast<std::size_t>(r)], device()));
    });
  }
  void map_peer(int peer, const bootstrap::file_descriptor& fd) {
    reserved_addresses& at = *blocks_[static_cast<std::size_t>(peer)];
    try {
      const current_device guard{device()};
      at.map(physical_memory::import(fd, at.bytes()), devices_);
    } catch (const cuda_error& e) {
      throw unsupported{
          fmt::format("device {} of rank {} cannot map the memory of rank {}'s device: {}. Both must be GPUs "
                      "that NVLink connects, "
                      "with one driver",
                      device(), world_.rank(), peer, e.what())};
    }
  }
  /// Within a process the other ranks' are theirs to unmap.
  void unmap() {
    const current_device guard{device()};
    if (!is_between_processes()) return own().unmap();
    for (const auto& block : blocks_) block->unmap();
  }

  world world_;
  bootstrap::group group_;
  std::size_t bytes_;
  memory_use use_;
  std::vector<int> devices_{device()};  // that reach what this rank maps
  std::vector<std::shared_ptr<reserved_addresses>> blocks_;
};

}  // namespace

std::unique_ptr<symmetric_window> make_window(const world& world, const bootstrap::group& g,
                                              std::size_t bytes, const memory_use& use) {
  return std::make_unique<window_on_cuda>(world, g, bytes, use);
}

}  // namespace baton::on_cuda
