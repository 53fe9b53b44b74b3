#pragma once
// cp.async: 4 or 16 bytes from global to shared memory without passing through registers.
#include <cstdint>

namespace baton::ptx {

/// cp.async.cg.shared.global [to], [from], 16, bytes                              (PTX 7.0, sm_80)
/// Both addresses are multiples of 16. The first `bytes` are copied, zeros follow. Complete after a wait on the group that the
/// thread commits next.
__device__ __forceinline__ void cp_async_16(void* to_shared, const void* from_global, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(to_shared))), "l"(from_global),
                 "r"(bytes)
               : "memory");
}

/// cp.async.ca.shared.global [to], [from], 4                                      (PTX 7.0, sm_80)
__device__ __forceinline__ void cp_async_4(void* to_shared, const void* from_global) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
               :
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(to_shared))), "l"(from_global)
               : "memory");
}

/// cp.async.mbarrier.arrive.noinc: one arrival, of those that the barrier was made for, when this thread's copies so far are done
/// (PTX 7.0, sm_80)
__device__ __forceinline__ void cp_async_arrive(std::uint64_t* mbarrier_shared) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];"
               :
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(mbarrier_shared)))
               : "memory");
}

/// cp.async.commit_group                                                          (PTX 7.0, sm_80)
__device__ __forceinline__ void cp_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/// cp.async.wait_group: until at most `Pending` of this thread's newest groups are incomplete.  (PTX 7.0, sm_80)
template <int Pending>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" : : "n"(Pending) : "memory");
}

}  // namespace baton::ptx
