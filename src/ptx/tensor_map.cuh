#pragma once
#include <cstdint>

namespace baton::ptx {

/// prefetch.tensormap: `map` in parameter, constant or global memory              (PTX 8.0, sm_90)
__device__ __forceinline__ void prefetch_tensor_map(const void* map) {
  asm volatile("prefetch.tensormap [%0];" : : "l"(map) : "memory");
}

}  // namespace baton::ptx
