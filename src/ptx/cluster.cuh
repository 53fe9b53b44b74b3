#pragma once
// What cuda::ptx lacks of clusters, blocks that run together and reach each other's shared memory: 32-bit addresses of
// another block's, and the barrier for warps that arrive whole (.aligned).                         (PTX 7.8, sm_90)
#include <cstdint>

namespace baton::ptx {

/// mapa.shared::cluster.u32: where block `rank` of the cluster keeps what is at `at` here
__device__ __forceinline__ std::uint32_t mapa(std::uint32_t at, std::uint32_t rank) {
  std::uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(rank));
  return there;
}

/// mapa.u64: the same of generic addresses, which plain accesses take
template <class T>
__device__ __forceinline__ T* mapa_generic(T* at, std::uint32_t rank) {
  T* there;
  asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(at), "r"(rank));
  return there;
}

/// mbarrier.arrive.release.cluster.shared::cluster.b64: `at` is an address of mapa.               (PTX 8.0)
__device__ __forceinline__ void mbarrier_arrive_remote(std::uint32_t at, std::uint32_t n) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0], %1;"
               :
               : "r"(at), "r"(n)
               : "memory");
}

/// mbarrier.arrive.release.cta.shared::cluster.b64: orders nothing of this thread beyond its block. `at` is an address of mapa.
__device__ __forceinline__ void mbarrier_arrive_remote_cta(std::uint32_t at, std::uint32_t n) {
  asm volatile("mbarrier.arrive.release.cta.shared::cluster.b64 _, [%0], %1;" : : "r"(at), "r"(n) : "memory");
}

/// st.async: 4 or 16 bytes to shared memory of a block of the cluster, counted on a barrier of that block. Both are addresses of
/// mapa.                                                                                          (PTX 8.1)
__device__ __forceinline__ void st_async(std::uint32_t at, std::uint32_t v, std::uint32_t barrier) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];"
               :
               : "r"(at), "r"(v), "r"(barrier)
               : "memory");
}
__device__ __forceinline__ void st_async(std::uint32_t at, const std::uint32_t (&v)[4],
                                         std::uint32_t barrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];"
      :
      : "r"(at), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]), "r"(barrier)
      : "memory");
}

/// mbarrier.try_wait until the phase of parity `odd` is over, or the word at `stop` in shared memory is not 0; then the word
/// behind that becomes `which`. One statement, and one that falls through where the phase is over: of a loop of the language's
/// own ptxas believes that lanes leave it apart, and keeps nothing behind it in uniform registers.        (PTX 8.0)
#define BATON_AWAIT_UNLESS(reach)                                               \
  asm volatile(                                                                 \
      "{\n  .reg .pred over, stops, ends;\n  .reg .b32 word;\n"                 \
      "  mov.u32 word, 0;\n"                                                    \
      "again:\n"                                                                \
      "  mbarrier.try_wait.parity.acquire." reach                               \
      ".shared::cta.b64 over, [%0], %1;\n"                                      \
      "  @!over ld.volatile.shared.u32 word, [%2];\n"                           \
      "  setp.ne.u32 stops, word, 0;\n  or.pred ends, over, stops;\n"           \
      "  vote.sync.all.pred ends, ends, 0xffffffff;\n  @!ends bra.uni again;\n" \
      "  @stops st.volatile.shared.u32 [%2+4], %3;\n}"                          \
      :                                                                         \
      : "r"(barrier), "r"(odd), "r"(stop), "r"(which)                           \
      : "memory")
template <bool of_cluster>
__device__ __forceinline__ void await_phase_unless(std::uint32_t barrier, std::uint32_t odd,
                                                   std::uint32_t stop, std::uint32_t which) {
  if constexpr (of_cluster)
    BATON_AWAIT_UNLESS("cluster");
  else
    BATON_AWAIT_UNLESS("cta");
}
#undef BATON_AWAIT_UNLESS

/// barrier.cluster.arrive.release.aligned
__device__ __forceinline__ void barrier_cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

/// barrier.cluster.wait.acquire.aligned
__device__ __forceinline__ void barrier_cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

}  // namespace baton::ptx
