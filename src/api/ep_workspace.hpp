#pragma once
// The memory of a communicator: a window that peers write into and a part of its own, both cut into slots.
#include <atomic>
#include <memory>

#include "baton/expert_parallel.hpp"
#include "kernels/ep/params.hpp"
#include "protocol/lost_rank.hpp"
#include "runtime/window.hpp"

namespace baton {

class ep_workspace {
 public:
  /// Collective, as all that follows; zeroed before any rank returns. @throws out_of_memory
  ep_workspace(const world& w, const ep_config& config);

  std::byte* local_of(int slot) const;
  ep::all_ranks_array<std::byte> windows_of(int slot) const;
  /// Behind all slots: words in which members meet, in each rank's window, and what they told, in memory of this rank's own.
  ep::all_ranks_array<std::uint64_t> words_of_ranks() const;
  std::uint64_t* told() const;
  /// With ranks beyond the p2p group members do not meet, and who gives up tells so in the same words.
  loss_words words_of_loss() const;

  /// Enqueues that this rank's memory of all slots is zeros.
  void clear() const;

  /// @throws unsupported  if it can only go for good
  void require_releasable() const { window_->require_releasable(); }
  /// Gives the memory back and keeps the addresses; the rank's work is done.
  void release();
  /// Zeros at the same addresses. Where it throws, on all ranks, the memory stays released.
  void reacquire();
  /// release() without the others.
  void drop() noexcept;
  bool is_released() const { return released_; }

 private:
  void require_memory() const;

  world ranks_;
  ep_config config_;
  workspace_size bytes_;
  std::unique_ptr<symmetric_window> local_;
  std::unique_ptr<symmetric_window> window_;
  std::atomic<bool> released_ = false;  // dump_state looks from any thread
};

}  // namespace baton
