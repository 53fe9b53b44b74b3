// The blocks of a symmetric window in memory of the host.
#include <cstring>
#include <utility>

#include "baton/error.hpp"
#include "bootstrap/exchange_descriptors.hpp"
#include "bootstrap/shared_memory.hpp"
#include "runtime/window_blocks.hpp"
#include "runtime/world_state.hpp"
#include "sim/machine.hpp"

namespace baton {
namespace {

class window_on_host final : public symmetric_window {
 public:
  window_on_host(const world& world, const bootstrap::group& g, std::size_t bytes, const memory_use& use)
      : world_{world}, group_{g}, bytes_{bytes}, use_{use} {
    require_host_memory_of_all(g, bytes, use);
    if (g.size > 1 && !world.state().in_process)
      map_every_rank();
    else
      share_own();
  }
  ~window_on_host() override {
    for (std::shared_ptr<std::byte>& block : blocks_) world_.state().machine->release(std::move(block));
  }
  std::byte* peer(int rank) const override { return blocks_.at(static_cast<std::size_t>(rank)).get(); }
  std::size_t bytes() const override { return bytes_; }

  void release() override {
    bootstrap::together(group_, [&] { give_back(); });
  }
  void reacquire() override {
    require_host_memory_of_all(group_, bytes_, use_);
    bootstrap::together(group_, [&] {
      if (file_)
        retake_shared(file_, file_bytes(), use_);  // holes read as zeros
      else
        std::memset(peer(group_.rank), 0, bytes_);
    });
  }
  void drop() noexcept override try { give_back(); } catch (const error&) {
  }

 private:
  std::size_t file_bytes() const { return bytes_ == 0 ? 1 : bytes_; }

  void share_own() {
    std::shared_ptr<std::byte> own;
    bootstrap::together(group_, [&] { own = allocate_host(bytes_, use_); });
    blocks_ = share_in_process(group_, std::move(own));
  }
  /// Rank r's block as this process maps it, for processes that share no address space.
  void map_every_rank() {
    bootstrap::together(group_, [&] { file_ = allocate_shared(file_bytes(), use_); });
    std::vector<bootstrap::file_descriptor> others = bootstrap::exchange_descriptors(group_, file_.get());
    bootstrap::together(group_, [&] {
      for (int r = 0; r < group_.size; ++r)
        blocks_.push_back(bootstrap::map_shared_memory(
            r == group_.rank ? file_ : others[static_cast<std::size_t>(r)], file_bytes()));
    });
  }
  /// The other ranks' are theirs to give.
  void give_back() {
    if (file_)
      bootstrap::give_back_shared_memory(file_, file_bytes());
    else
      give_back_pages(peer(group_.rank), bytes_);
  }

  world world_;
  bootstrap::group group_;
  std::size_t bytes_;
  memory_use use_;
  bootstrap::file_descriptor file_;  // of the own block, between processes
  std::vector<std::shared_ptr<std::byte>> blocks_;
};

}  // namespace

std::unique_ptr<symmetric_window> make_window_on_host(const world& world, const bootstrap::group& g,
                                                      std::size_t bytes, const memory_use& use) {
  return std::make_unique<window_on_host>(world, g, bytes, use);
}

}  // namespace baton
