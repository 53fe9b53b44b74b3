#pragma once
// The memory of the program under test: what may be accessed, and by whom.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace baton::check {

struct allocation {
  std::uintptr_t first = 0, end = 0;
  int rank = -1, block = -1;  // whose shared memory it is; -1: everybody's
};

class allocations {
 public:
  void add(const void* first, std::size_t bytes, int rank = -1, int block = -1);
  void clear() { all_.clear(); }
  /// Which one holds all of the bytes; null: none.
  const allocation* holding(const void* first, std::size_t bytes) const;
  /// The one that ends last before the address; null: none.
  const allocation* before(const void* address) const;

 private:
  /// How many begin at or before the address.
  std::size_t begun(std::uintptr_t address) const;

  std::vector<allocation> all_;  // by address; no two overlap
  mutable std::size_t last_ = 0;
};

}  // namespace baton::check
