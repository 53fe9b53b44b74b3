#include "runtime/window.hpp"

#include <fmt/format.h>

#include <utility>

#include "baton/error.hpp"
#include "bootstrap/exchange_descriptors.hpp"
#include "bootstrap/shared_memory.hpp"
#include "runtime/host_memory.hpp"
#include "runtime/on_cuda.hpp"
#include "runtime/window_blocks.hpp"
#include "runtime/world_state.hpp"
#include "sim/machine.hpp"

namespace baton {
namespace {

class window_of_blocks final : public symmetric_window {
 public:
  window_of_blocks(const world& world, std::vector<std::shared_ptr<std::byte>> blocks, std::size_t bytes)
      : world_{world}, blocks_{std::move(blocks)}, bytes_{bytes} {}
  ~window_of_blocks() override {
    const detail::world_state& state = world_.state();
    if (state.device == device_kind::cuda)
      on_cuda::drain(state);
    else
      for (std::shared_ptr<std::byte>& block : blocks_) state.machine->release(std::move(block));
  }
  std::byte* peer(int rank) const override { return blocks_.at(static_cast<std::size_t>(rank)).get(); }
  std::size_t bytes() const override { return bytes_; }

 private:
  world world_;
  std::vector<std::shared_ptr<std::byte>> blocks_;
  std::size_t bytes_;
};

void agree_on_size(const bootstrap::group& g, std::size_t bytes, const std::string& purpose) {
  const auto all = bootstrap::gather(g, static_cast<std::uint64_t>(bytes));
  for (std::size_t r = 0; r < all.size(); ++r)
    if (all[r] != all[0])
      throw transport_error{
          fmt::format("ranks disagree about the window for {}: rank 0 asks for {} bytes, rank {} for {}",
                      purpose, all[0], r, all[r])};
}

/// Rank r's block as this process maps it, for processes that share no address space.
std::vector<std::shared_ptr<std::byte>> map_every_rank(const bootstrap::group& g, std::size_t bytes,
                                                       const memory_use& use) {
  const std::size_t size = bytes == 0 ? 1 : bytes;
  bootstrap::file_descriptor own;
  bootstrap::together(g, [&] { own = allocate_shared(size, use); });
  std::vector<bootstrap::file_descriptor> others = bootstrap::exchange_descriptors(g, own.get());
  std::vector<std::shared_ptr<std::byte>> blocks;
  bootstrap::together(g, [&] {
    for (int r = 0; r < g.size; ++r)
      blocks.push_back(
          bootstrap::map_shared_memory(r == g.rank ? own : others[static_cast<std::size_t>(r)], size));
  });
  return blocks;
}

std::vector<std::shared_ptr<std::byte>> host_blocks(const detail::world_state& state, std::size_t bytes,
                                                    const memory_use& use) {
  const bootstrap::group g = state.peers();
  require_host_memory_of_all(g, bytes, use);
  if (!state.in_process) return map_every_rank(g, bytes, use);
  std::shared_ptr<std::byte> own;
  bootstrap::together(g, [&] { own = allocate_host(bytes, use); });
  return share_in_process(g, std::move(own));
}

}  // namespace

std::vector<std::shared_ptr<std::byte>> share_in_process(const bootstrap::group& g,
                                                         std::shared_ptr<std::byte> mine) {
  const auto handles = bootstrap::gather(g, &std::as_const(mine));
  std::vector<std::shared_ptr<std::byte>> blocks;
  for (const std::shared_ptr<std::byte>* handle : handles) blocks.push_back(*handle);
  bootstrap::meet(g);  // `mine` must outlive everybody's copy of it
  return blocks;
}

void require_memory_of_all(const world& world, std::size_t bytes, const std::string& purpose,
                           const std::string& knob) {
  // On CUDA the driver gives no more than there is.
  if (world.device() == device_kind::cpu)
    require_host_memory_of_all(world.state().peers(), bytes, {purpose, knob});
}

std::unique_ptr<symmetric_window> make_window(const world& world, std::size_t bytes,
                                              const std::string& purpose, const std::string& knob) {
  const detail::world_state& state = world.state();
  const memory_use use{purpose, knob};
  agree_on_size(state.peers(), bytes, purpose);
  return std::make_unique<window_of_blocks>(world,
                                            world.device() == device_kind::cuda
                                                ? on_cuda::make_blocks(state, bytes, use)
                                                : host_blocks(state, bytes, use),
                                            bytes);
}

}  // namespace baton
