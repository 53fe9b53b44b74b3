#pragma once
// Clusters: blocks that run together and reach each other's shared memory.       (PTX 7.8, sm_90)
#include <cstdint>

namespace baton::ptx {

/// mov.u32 from %cluster_ctarank: this block's number in its cluster
__device__ __forceinline__ std::uint32_t cluster_ctarank() {
  std::uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// mapa.shared::cluster.u32: where block `rank` of the cluster keeps what is at `at` here
__device__ __forceinline__ std::uint32_t mapa(std::uint32_t at, std::uint32_t rank) {
  std::uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(rank));
  return there;
}

/// barrier.cluster.arrive.release.aligned
__device__ __forceinline__ void barrier_cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

/// barrier.cluster.wait.acquire.aligned
__device__ __forceinline__ void barrier_cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

}  // namespace baton::ptx
