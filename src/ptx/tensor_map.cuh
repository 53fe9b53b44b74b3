#pragma once
#include <cstdint>

namespace baton::ptx {

/// prefetch.tensormap: `map` in parameter, constant or global memory              (PTX 8.0, sm_90)
__device__ __forceinline__ void prefetch_tensor_map(const void* map) {
  asm volatile("prefetch.tensormap [%0];" : : "l"(map) : "memory");
}

/// cp.async.bulk.prefetch.tensor.5d.L2.global.tile
__device__ __forceinline__ void prefetch_tensor_box(const void* map, const std::int32_t (&at)[5]) {
  asm volatile("cp.async.bulk.prefetch.tensor.5d.L2.global.tile [%0, {%1, %2, %3, %4, %5}];"
               :
               : "l"(map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4])
               : "memory");
}

}  // namespace baton::ptx
