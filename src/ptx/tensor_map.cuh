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

/// createpolicy.fractional.L2::evict_first: of lines that the L2 gives away before others                  (PTX 7.4, sm_80)
__device__ __forceinline__ std::uint64_t evict_first() {
  std::uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

/// cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint
__device__ __forceinline__ void load_tensor_box(std::uint32_t to_shared, const void* map,
                                                const std::int32_t (&at)[5], std::uint32_t mbarrier_shared,
                                                std::uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1, {%2, %3, %4, %5, %6}], [%7], %8;"
      :
      : "r"(to_shared), "l"(map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]),
        "r"(mbarrier_shared), "l"(policy)
      : "memory");
}

}  // namespace baton::ptx
