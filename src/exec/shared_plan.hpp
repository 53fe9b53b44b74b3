#pragma once
// The shared memory of a block: what lies where, and how much it is, said once for the kernel and for who launches it.
#include <cstddef>
#include <cstdint>

#include "base/macros.hpp"
#include "base/math.hpp"

namespace baton {

/// What a block may have on the GPUs that kernels are compiled for.
inline constexpr std::uint32_t most_shared_bytes = 227 << 10;

/// An array in the shared memory of a block.
template <class T>
struct shared_array {
  std::uint32_t offset = 0;
  template <class X>
  BATON_FN T* operator()(X& x) const {
    return reinterpret_cast<T*>(x.shared() + offset);
  }
};

/// Lays arrays out one behind the other.
struct shared_plan {
  std::uint32_t bytes = 0;
  template <class T>
  constexpr shared_array<T> take(int count, std::uint32_t alignment = alignof(T)) {
    const std::uint32_t here = align_up(bytes, alignment);
    bytes = here + static_cast<std::uint32_t>(count) * static_cast<std::uint32_t>(sizeof(T));
    return {here};
  }
};

}  // namespace baton
