#pragma once
// An access stands on a multiple of its type's alignment, or a GPU refuses it; so does the CPU machine.
#include <cstddef>
#include <cstdint>

namespace baton::sim {

[[noreturn]] void refuse_misaligned(const void* at, std::size_t alignment);

inline void require_aligned(const void* at, std::size_t alignment) {
  if (reinterpret_cast<std::uintptr_t>(at) % alignment != 0) refuse_misaligned(at, alignment);
}

}  // namespace baton::sim
