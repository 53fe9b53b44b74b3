#pragma once
// What the copy engine still has to do: pieces of bulk copies. Each is read and, in a later step, written; between
// the two anybody may run. Pieces of one copy are independent and land in any order.
//
// Where stores are delayed, the engine reads shared memory as the last proxy fence of the block left it
// (block_state::engine_view) and global memory as far as it is visible to the whole device.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "exec/mbarrier.hpp"
#include "sim/warp.hpp"

namespace baton::sim {

struct copy_piece {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
  mbarrier* counts_on = nullptr;  // loads: where the bytes are counted as they land
  warp_state* owner = nullptr;    // who issued it
  std::uint64_t group = 0;        // stores: the owner's group
  std::uint64_t priority = 0;
  bool is_read = false;
  std::vector<std::byte> held{};

  bool is_store() const { return counts_on == nullptr; }
};

}  // namespace baton::sim
