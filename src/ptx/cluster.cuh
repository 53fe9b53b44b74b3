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

/// st.async: 4, 8 or 16 bytes to shared memory of a block of the cluster, counted on a barrier of that block. Both are addresses
/// of mapa.                                                                                       (PTX 8.1)
__device__ __forceinline__ void st_async(std::uint32_t at, std::uint32_t v, std::uint32_t barrier) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];"
               :
               : "r"(at), "r"(v), "r"(barrier)
               : "memory");
}
__device__ __forceinline__ void st_async(std::uint32_t at, std::uint64_t v, std::uint32_t barrier) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];"
               :
               : "r"(at), "l"(v), "r"(barrier)
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

/// Waits for the phase of parity `odd` of the barrier: mbarrier.try_wait until it is over, `deadline_ns` have passed (0: never),
/// *abort, if there is such a word, is not 0, or the word at `late` is not. Where the deadline passed or *abort was set, `late`
/// becomes `which`. One statement, as a loop of the language's own makes ptxas take all that is live across it for different in
/// each lane. The first try is without a vote, which would cost 2 % of attention's time; lanes that it told different things meet
/// again in the end.                                                                                (PTX 8.0)
#define BATON_TRY_PHASE(reach) \
  "  mbarrier.try_wait.parity.acquire." reach ".shared::cta.b64 over, [%0], %1;\n"
#define BATON_LEAVE_IF_ALL "  vote.sync.all.pred over, over, here;  @over bra.uni there;\n"
#define BATON_AWAIT_PHASE(reach)                                                                          \
  asm volatile(                                                                                           \
      "{\n  .reg .pred over, looks;\n  .reg .b64 start, now;\n  .reg .b32 word, here;\n" BATON_TRY_PHASE( \
          reach) "  @over bra there;\n  activemask.b32 here;\n" BATON_TRY_PHASE(reach) BATON_LEAVE_IF_ALL \
      "  mov.u64 start, %%globaltimer;\n  setp.ne.u64 looks, %4, 0;\n"                                    \
      "again:\n" BATON_TRY_PHASE(reach) BATON_LEAVE_IF_ALL                                                \
      "  ld.relaxed.cta.shared.u32 word, [%2];\n  setp.ne.u32 over, word, 0;\n" BATON_LEAVE_IF_ALL        \
      "  mov.u32 word, 0;\n  @looks ld.relaxed.sys.u32 word, [%4];\n"                                     \
      "  mov.u64 now, %%globaltimer;\n  sub.u64 now, now, start;\n"                                       \
      "  setp.ge.u64 over, now, %3;\n  setp.ne.or.u32 over, word, 0, over;\n"                             \
      "  vote.sync.all.pred over, over, here;  @!over bra.uni again;\n"                                   \
      "  st.relaxed.cta.shared.u32 [%2], %5;\n"                                                           \
      "there:\n  bar.warp.sync 0xffffffff;\n}"                                                            \
      :                                                                                                   \
      : "r"(barrier), "r"(odd), "r"(late), "l"(deadline_ns - 1), "l"(abort), "r"(which)                   \
      : "memory")
template <bool of_cluster>
__device__ __forceinline__ void await_phase_or_note(std::uint32_t barrier, std::uint32_t odd,
                                                    std::uint32_t late, std::uint64_t deadline_ns,
                                                    const std::uint32_t* abort, std::uint32_t which) {
  if constexpr (of_cluster)
    BATON_AWAIT_PHASE("cluster");
  else
    BATON_AWAIT_PHASE("cta");
}
#undef BATON_AWAIT_PHASE
#undef BATON_LEAVE_IF_ALL
#undef BATON_TRY_PHASE

/// barrier.cluster.arrive.release.aligned
__device__ __forceinline__ void barrier_cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

/// barrier.cluster.arrive.relaxed.aligned                                                                         (PTX 8.0)
__device__ __forceinline__ void barrier_cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

/// barrier.cluster.wait.acquire.aligned
__device__ __forceinline__ void barrier_cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

}  // namespace baton::ptx
