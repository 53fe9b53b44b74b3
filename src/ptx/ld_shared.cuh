#pragma once
#include <cstdint>

namespace baton::ptx {

/// ld.shared.v2.u32: 8 bytes of a shared address.                                 (PTX 1.0)
__device__ __forceinline__ uint2 ld_shared_v2(std::uint32_t at) {
  uint2 pair;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(pair.x), "=r"(pair.y) : "r"(at) : "memory");
  return pair;
}

}  // namespace baton::ptx
