#pragma once
// What cuda::ptx lacks for groups of four warps.                                                    (PTX 8.0, sm_90a)
#include <cstdint>

namespace baton::ptx {

/// setmaxnreg.inc.sync.aligned.u32: all warps of a group; blocks until the registers are there
template <int Registers>
__device__ __forceinline__ void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(Registers) : "memory");
}

/// setmaxnreg.dec.sync.aligned.u32: all warps of a group
template <int Registers>
__device__ __forceinline__ void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(Registers) : "memory");
}

/// elect.sync of all lanes: true on one lane, always the same
__device__ __forceinline__ bool elect_one() {
  std::uint32_t chosen;
  asm volatile("{\n  .reg .pred p;\n  elect.sync _|p, 0xffffffff;\n  selp.u32 %0, 1, 0, p;\n}"
               : "=r"(chosen)
               :
               : "memory");
  return chosen != 0;
}

/// barrier.cta.sync.aligned: so many threads of the block meet at barrier `id`
__device__ __forceinline__ void barrier_sync(int id, int threads) {
  asm volatile("barrier.cta.sync.aligned %0, %1;" : : "r"(id), "r"(threads) : "memory");
}

}  // namespace baton::ptx
