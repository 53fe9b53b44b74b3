#pragma once
// Stores on their way to others. A plain or relaxed store first sits with its warp; block barriers, releases
// and kernel ends move it on: warp -> block -> rank -> memory. Who reads an address that a list it can see
// holds, pushes that list to memory first, and a full list drains its older half: a store may always become
// visible early, but without the right release the last ones stay invisible to whoever has no claim to them.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/whole_arrays.hpp"

namespace baton::sim {

/// Bytes from `begin` up to `end`.
struct byte_range {
  const std::byte *begin, *end;
};

/// The first of n ranges that has a byte of `wanted`; n if none has. Every read of a warp asks this of every list it can see.
BATON_READS_WHOLE_ARRAYS inline std::size_t first_overlap(const byte_range* ranges, std::size_t n,
                                                          byte_range wanted) {
  look_at(ranges, n);
  std::size_t i = 0;
  while (i < n && (ranges[i].begin >= wanted.end || wanted.begin >= ranges[i].end)) ++i;
  return i;
}

class store_list {
 public:
  static constexpr std::size_t capacity = 128;

  /// The next list on the way; what it holds of an address is older than what is here.
  void comes_before(store_list& wider) { wider_ = &wider; }

  void add(void* at, const void* bytes, std::size_t size) {
    if (places_.size() == capacity) drain(capacity / 2);
    places_.push_back({static_cast<std::byte*>(at), static_cast<std::byte*>(at) + size});
    values_.emplace_back();
    std::memcpy(values_.back().bytes, bytes, size);
  }

  /// Stores to these bytes, in wider lists and here, go to memory, oldest first. True if there were any.
  bool reveal(const void* at, std::size_t size) {
    const bool in_wider = wider_ != nullptr && wider_->reveal(at, size);
    const auto* begin = static_cast<const std::byte*>(at);
    const byte_range wanted{begin, begin + size};
    const std::size_t count = places_.size();
    std::size_t next = first_overlap(places_.data(), count, wanted), kept = next;
    if (next == count) return in_wider;
    while (next < count) {
      store(next++);
      const std::size_t others = first_overlap(places_.data() + next, count - next, wanted);
      for (std::size_t i = 0; i < others; ++i) {
        places_[kept] = places_[next];
        values_[kept++] = values_[next++];
      }
    }
    resize(kept);
    return true;
  }

  bool empty() const { return places_.empty(); }
  void drop() { resize(0); }
  void to_memory() { drain(places_.size()); }

  /// Hands all entries on; the order of stores to one address is kept.
  void move_to(store_list& wider) {
    for (std::size_t i = 0; i < places_.size(); ++i)
      wider.add(const_cast<std::byte*>(places_[i].begin), values_[i].bytes, size_of(i));
    resize(0);
  }

 private:
  struct value {
    value() {}             // its bytes come at once
    std::byte bytes[128];  // a line is the largest
  };

  std::size_t size_of(std::size_t i) const {
    return static_cast<std::size_t>(places_[i].end - places_[i].begin);
  }
  void store(std::size_t i) {
    std::memcpy(const_cast<std::byte*>(places_[i].begin), values_[i].bytes, size_of(i));
  }
  void resize(std::size_t size) {
    places_.resize(size);
    values_.resize(size);
  }

  /// The oldest ones, which are at least half of all.
  void drain(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      if (wider_ != nullptr) wider_->reveal(places_[i].begin, size_of(i));
      store(i);
    }
    const std::size_t rest = places_.size() - count;
    if (rest > 0) {  // memcpy, as AddressSanitizer's memmove goes byte by byte
      std::memcpy(places_.data(), places_.data() + count, rest * sizeof(byte_range));
      std::memcpy(static_cast<void*>(values_.data()), values_.data() + count, rest * sizeof(value));
    }
    resize(rest);
  }

  std::vector<byte_range> places_;
  std::vector<value> values_;  // one a place
  store_list* wider_ = nullptr;
};

}  // namespace baton::sim
