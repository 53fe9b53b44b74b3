#pragma once
#include <cstdint>

namespace baton::ptx {

/// The 32-bit address in the block's shared memory, which is also its own address in the cluster's window.
__device__ __forceinline__ std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

}  // namespace baton::ptx
