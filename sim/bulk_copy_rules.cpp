#include "sim/bulk_copy_rules.hpp"

#include <fmt/format.h>

#include <cstdint>

#include "baton/error.hpp"

namespace baton::sim {

void require_bulk_copy(const shared_range& range, const void* shared, const void* global, int bytes) {
  const std::ptrdiff_t offset = static_cast<const std::byte*>(shared) - range.first;
  if (bytes <= 0 || bytes % 16 != 0 || reinterpret_cast<std::uintptr_t>(global) % 16 != 0 || offset % 16 != 0)
    throw error{fmt::format("bulk copy of {} bytes between shared + {} and {}: all must be multiples of 16",
                            bytes, offset, global)};
  if (offset < 0 || offset + bytes > range.bytes)
    throw error{fmt::format("bulk copy of {} bytes at shared + {}: shared memory has {}", bytes, offset,
                            range.bytes)};
}

}  // namespace baton::sim
