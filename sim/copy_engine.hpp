#pragma once
// What the copy engine still has to do: pieces of bulk copies. Each is read and, in a later step, written; between
// the two anybody may run. Pieces of one copy are independent and land in any order.
//
// Where stores are delayed, the engine reads shared memory as the last proxy fence of the block left it
// (block_state::engine_view) and global memory as far as it is visible to the whole device.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "exec/mbarrier.hpp"
#include "sim/box_rows.hpp"
#include "sim/warp.hpp"

namespace baton::sim {

struct copy_piece {
  std::byte* to = nullptr;          // null: rows of a box
  const std::byte* from = nullptr;  // null: rows of a box
  std::size_t bytes = 0;
  std::optional<box_rows> box = {};  // the end in global memory, where it is a matrix
  mbarrier* counts_on = nullptr;     // loads: where the bytes are counted as they land
  warp_state* owner = nullptr;       // who issued it
  block_state* block = nullptr;      // whose shared memory it is about; null: the owner's
  std::uint64_t group = 0;           // stores: the owner's group
  std::uint64_t priority = 0;
  bool is_read = false;
  bool is_plain = false;  // a store of a warp: the engines see it after a proxy fence
  std::vector<std::byte> held{};

  bool is_store() const { return counts_on == nullptr; }
  block_state& home() const { return block != nullptr ? *block : *owner->home; }
  /// What is copied at once at least.
  std::size_t unit() const { return box ? box_row_bytes : 16; }
  /// The rest, without its first bytes.
  void skip(std::size_t done) {
    if (to != nullptr) to += done;
    if (from != nullptr) from += done;
    if (box) box->first += static_cast<int>(done) / box_row_bytes;
    bytes -= done;
  }
};

/// Pieces that are not done, as they were issued. Looked at in every step, so which comes first by priority is kept.
class copy_pieces {
 public:
  bool empty() const { return pieces_.empty(); }
  std::size_t size() const { return pieces_.size(); }
  copy_piece& operator[](std::size_t index) { return *pieces_[index]; }
  void add(copy_piece piece);
  copy_piece take(std::size_t index);
  /// The one with the highest priority, of equals the first. Not if there are none.
  std::size_t most_urgent();
  bool any(const std::function<bool(const copy_piece&)>& is) const;
  void erase_if(const std::function<bool(const copy_piece&)>& is);

 private:
  std::vector<std::unique_ptr<copy_piece>> pieces_;
  std::optional<std::size_t> most_urgent_;  // where it is known
};

}  // namespace baton::sim
