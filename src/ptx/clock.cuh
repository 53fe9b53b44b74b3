#pragma once
#include <cstdint>

namespace baton::ptx {

/// mov.u64 from %clock64: cycles of this SM.                                       (PTX 2.0, sm_20)
/// The memory clobber keeps it between the accesses that it times.
__device__ __forceinline__ std::uint64_t clock64() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(now) :: "memory");
  return now;
}

}  // namespace baton::ptx
