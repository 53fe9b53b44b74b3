#pragma once
#include <cstdint>

namespace baton::ptx {

/// mov.u64 from %globaltimer: nanoseconds, the same on all SMs; steps of up to a microsecond.  (PTX 3.1, sm_30)
/// The memory clobber keeps it between the polls that it times.
__device__ __forceinline__ std::uint64_t globaltimer() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now) :: "memory");
  return now;
}

}  // namespace baton::ptx
