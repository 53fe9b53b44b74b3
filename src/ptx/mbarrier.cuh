#pragma once
// mbarrier: arrivals and bytes that complete phases.                             (PTX 8.0, sm_90)
// PTX ISA 9.7.13.15 "Parallel Synchronization and Communication Instructions: mbarrier".
// Closing braces are indented: in column 0 they end a kernel for tools/check_ptx.py.
#include <cstdint>

#include "exec/mbarrier.hpp"

namespace baton::ptx {

/// The 32-bit address in the block's shared memory, which is also its own address in the cluster's window.
__device__ __forceinline__ std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

/// mbarrier.init.shared::cta.b64
__device__ __forceinline__ void mbarrier_init(mbarrier* b, std::uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared_address(b)), "r"(arrivals) : "memory");
}

/// mbarrier.arrive.release.cta.shared::cta.b64
__device__ __forceinline__ void mbarrier_arrive_cta(mbarrier* b, std::uint32_t n) {
  asm volatile("{\n  .reg .b64 state;\n  mbarrier.arrive.release.cta.shared::cta.b64 state, [%0], %1;\n }"
               :: "r"(shared_address(b)), "r"(n) : "memory");
}

/// mbarrier.arrive.release.cluster.shared::cta.b64
__device__ __forceinline__ void mbarrier_arrive_cluster(mbarrier* b, std::uint32_t n) {
  asm volatile("{\n  .reg .b64 state;\n  mbarrier.arrive.release.cluster.shared::cta.b64 state, [%0], %1;\n }"
               :: "r"(shared_address(b)), "r"(n) : "memory");
}

/// mbarrier.arrive.release.cluster.shared::cluster.b64: `at` is an address of mapa.
__device__ __forceinline__ void mbarrier_arrive_remote(std::uint32_t at, std::uint32_t n) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0], %1;" :: "r"(at), "r"(n) : "memory");
}

/// mbarrier.arrive.expect_tx.release.cta.shared::cta.b64
__device__ __forceinline__ void mbarrier_arrive_expect_tx_cta(mbarrier* b, std::uint32_t bytes) {
  asm volatile("{\n  .reg .b64 state;\n  mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 state, [%0], %1;\n }"
               :: "r"(shared_address(b)), "r"(bytes) : "memory");
}

/// mbarrier.arrive.expect_tx.release.cluster.shared::cta.b64
__device__ __forceinline__ void mbarrier_arrive_expect_tx_cluster(mbarrier* b, std::uint32_t bytes) {
  asm volatile("{\n  .reg .b64 state;\n  mbarrier.arrive.expect_tx.release.cluster.shared::cta.b64 state, [%0], %1;\n }"
               :: "r"(shared_address(b)), "r"(bytes) : "memory");
}

/// mbarrier.try_wait.parity.acquire.cta.shared::cta.b64
/// True once the phase of this parity has completed. May suspend the thread for a time the hardware chooses;
/// false means "not yet".
[[nodiscard]] __device__ __forceinline__ bool mbarrier_try_wait_parity_cta(mbarrier* b, parity p) {
  std::uint32_t done;
  asm volatile("{\n  .reg .pred done;\n"
               "  mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%1], %2;\n"
               "  selp.u32 %0, 1, 0, done;\n }"
               : "=r"(done) : "r"(shared_address(b)), "r"(static_cast<std::uint32_t>(p)) : "memory");
  return done != 0;
}

/// mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64: the same, for arrivals from the whole cluster.
[[nodiscard]] __device__ __forceinline__ bool mbarrier_try_wait_parity_cluster(mbarrier* b, parity p) {
  std::uint32_t done;
  asm volatile("{\n  .reg .pred done;\n"
               "  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%1], %2;\n"
               "  selp.u32 %0, 1, 0, done;\n }"
               : "=r"(done) : "r"(shared_address(b)), "r"(static_cast<std::uint32_t>(p)) : "memory");
  return done != 0;
}

}  // namespace baton::ptx
