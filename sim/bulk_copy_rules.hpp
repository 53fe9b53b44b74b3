#pragma once
// What a bulk copy may be asked; both CPU back ends refuse the rest.
#include <cstddef>

namespace baton::sim {

/// A block's shared memory.
struct shared_range {
  const std::byte* first = nullptr;
  std::ptrdiff_t bytes = 0;
};

/// Throws baton::error unless both addresses and the size are multiples of 16 and the shared end lies in `range`.
void require_bulk_copy(const shared_range& range, const void* shared, const void* global, int bytes);

}  // namespace baton::sim
