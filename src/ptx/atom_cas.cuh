#pragma once
// atom.cas: compare and swap; claims a stuck record.                               (PTX 6.0, sm_70)
#include <cstdint>

namespace baton::ptx {

/// atom.relaxed.gpu.cas.b32: stores `desired` if `expected` was there; gives what was there. Device scope: over PCIe
/// memory of the host has no atomics that the host takes part in, and the claimants are warps of one GPU.
__device__ __forceinline__ std::uint32_t atom_cas_relaxed_gpu(std::uint32_t* at, std::uint32_t expected,
                                                              std::uint32_t desired) {
  std::uint32_t old;
  asm volatile("atom.relaxed.gpu.cas.b32 %0, [%1], %2, %3;"
               : "=r"(old) : "l"(at), "r"(expected), "r"(desired) : "memory");
  return old;
}

}  // namespace baton::ptx
