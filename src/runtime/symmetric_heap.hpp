#pragma once
// Which blocks of NVSHMEM's symmetric heap a process has, and which of them may be taken again. All ranks take and leave theirs
// in one order, so that a block's number is the same on each. Memory is not freed, which would make ranks wait for each other
// where a communicator ends, but given to the next one when all have done with it.
//
// A block is done with when all that was put into it is known to be there: of whole rounds it is, as each rank has awaited what
// it was sent. Of others puts, and words that end waits of the same round's number, may come at any time: such memory is nobody's
// any more. A rank knows that of its own rounds alone: a block goes to who asks when each rank says that it is free.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>

#include "base/math.hpp"

namespace baton {

/// For all threads.
class symmetric_heap {
 public:
  /// Bit i: the i-th block is large enough, and this rank has done with it. Later ones are never taken again.
  std::uint64_t free_blocks(std::size_t bytes) const {
    const std::lock_guard lock{mutex_};
    std::uint64_t mine = 0;
    for (std::size_t i = 0; i < std::min(blocks_.size(), most_blocks); ++i)
      if (blocks_[i].is_free && blocks_[i].bytes >= bytes) mine |= std::uint64_t{1} << i;
    return mine;
  }
  /// The first of those that are free on all ranks; null: none is.
  std::byte* first_of(std::uint64_t free_on_all) const {
    const std::lock_guard lock{mutex_};
    return free_on_all != 0 ? blocks_[static_cast<std::size_t>(std::countr_zero(free_on_all))].memory
                            : nullptr;
  }
  /// Of the GPU's memory, where so much is allocated: none if what the heap has grown by last has room for it. It grows by steps,
  /// which are these unless NVSHMEM_CUMEM_GRANULARITY is set.
  std::size_t growth_for(std::size_t bytes) const {
    const std::lock_guard lock{mutex_};
    return bytes <= left_ ? 0 : align_up(bytes, step);
  }
  /// One of the blocks, or memory that was allocated just now.
  void take(std::byte* memory, std::size_t bytes) {
    const std::lock_guard lock{mutex_};
    if (block* const known = of(memory); known != nullptr)
      known->is_free = false;
    else
      take_new(memory, bytes);
  }
  /// `is_done_with`: all that was put into it is there.
  void leave(const std::byte* memory, bool is_done_with) {
    const std::lock_guard lock{mutex_};
    if (block* const known = of(memory); known != nullptr) known->is_free = is_done_with;
  }

 private:
  struct block {
    std::byte* memory;
    std::size_t bytes;
    bool is_free;
  };
  static constexpr std::size_t step = std::size_t{512} << 20;
  static constexpr std::size_t most_blocks = 64;  // of which one may be taken again

  void take_new(std::byte* memory, std::size_t bytes) {
    left_ = (bytes <= left_ ? left_ : align_up(bytes, step)) - bytes;
    blocks_.push_back({memory, bytes, false});
  }
  block* of(const std::byte* memory) {
    const auto at = std::ranges::find(blocks_, memory, &block::memory);
    return at != blocks_.end() ? &*at : nullptr;
  }

  mutable std::mutex mutex_;
  std::deque<block> blocks_;
  std::size_t left_ = 0;  // of its last steps
};

}  // namespace baton
