#pragma once
// Stores on their way to others. A plain or relaxed store first sits with its warp; block barriers, releases
// and kernel ends move it on: warp -> block -> rank -> memory. Who reads an address that a list it can see
// holds, pushes that list to memory first, and a full list drains its older half: a store may always become
// visible early, but without the right release the last ones stay invisible to whoever has no claim to them.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace baton::sim {

class store_list {
 public:
  static constexpr std::size_t capacity = 128;

  /// The next list on the way; what it holds of an address is older than what is here.
  void comes_before(store_list& wider) { wider_ = &wider; }

  void add(void* at, const void* bytes, std::size_t size) {
    if (entries_.size() == capacity) drain(capacity / 2);
    entry e{static_cast<std::byte*>(at), size, {}};
    std::memcpy(e.bytes, bytes, size);
    entries_.push_back(e);
  }

  /// Stores to these bytes, in wider lists and here, go to memory, oldest first. True if there were any.
  bool reveal(const void* at, std::size_t size) {
    const bool in_wider = wider_ != nullptr && wider_->reveal(at, size);
    const auto* begin = static_cast<const std::byte*>(at);
    const auto here = std::erase_if(entries_, [&](const entry& e) {
      if (e.at >= begin + size || begin >= e.at + e.size) return false;
      std::memcpy(e.at, e.bytes, e.size);
      return true;
    });
    return here > 0 || in_wider;
  }

  bool empty() const { return entries_.empty(); }
  void drop() { entries_.clear(); }
  void to_memory() { drain(entries_.size()); }

  /// Hands all entries on; the order of stores to one address is kept.
  void move_to(store_list& wider) {
    for (const entry& e : entries_) wider.add(e.at, e.bytes, e.size);
    entries_.clear();
  }

 private:
  struct entry {
    std::byte* at;
    std::size_t size;
    std::byte bytes[128];  // a line is the largest
  };

  void drain(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const entry& e = entries_[i];
      if (wider_ != nullptr) wider_->reveal(e.at, e.size);
      std::memcpy(e.at, e.bytes, e.size);
    }
    entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(count));
  }

  std::vector<entry> entries_;
  store_list* wider_ = nullptr;
};

}  // namespace baton::sim
