#pragma once
// atom.min: atomically stores the smaller of `value` and what is at a word behind a generic address and gives what was there. One
// specialisation is one instruction.  (PTX 6.0, sm_70; .cluster: 7.8, sm_90)
// PTX ISA 9.7.13.5 "Parallel Synchronization and Communication Instructions: atom".
#include <cstdint>

#include "exec/order.hpp"

namespace baton::ptx {

template <order Order, scope Scope, class Word>
__device__ Word atom_min(Word*, Word) = delete;

/// atom.relaxed.cta.min.u32
template <>
__device__ __forceinline__ std::uint32_t atom_min<order::relaxed, scope::block>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.relaxed.cta.min.u32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.relaxed.cta.min.u64
template <>
__device__ __forceinline__ std::uint64_t atom_min<order::relaxed, scope::block>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.relaxed.cta.min.u64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.relaxed.cluster.min.u32
template <>
__device__ __forceinline__ std::uint32_t atom_min<order::relaxed, scope::cluster>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.relaxed.cluster.min.u32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.relaxed.gpu.min.u32
template <>
__device__ __forceinline__ std::uint32_t atom_min<order::relaxed, scope::device>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.relaxed.gpu.min.u32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.relaxed.cluster.min.u64
template <>
__device__ __forceinline__ std::uint64_t atom_min<order::relaxed, scope::cluster>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.relaxed.cluster.min.u64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.relaxed.gpu.min.u64
template <>
__device__ __forceinline__ std::uint64_t atom_min<order::relaxed, scope::device>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.relaxed.gpu.min.u64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.relaxed.sys.min.u32
template <>
__device__ __forceinline__ std::uint32_t atom_min<order::relaxed, scope::system>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.relaxed.sys.min.u32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.relaxed.sys.min.u64
template <>
__device__ __forceinline__ std::uint64_t atom_min<order::relaxed, scope::system>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.relaxed.sys.min.u64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.acquire.cta.min.u32
template <>
__device__ __forceinline__ std::uint32_t atom_min<order::acquire, scope::block>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.acquire.cta.min.u32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.acquire.cta.min.u64
template <>
__device__ __forceinline__ std::uint64_t atom_min<order::acquire, scope::block>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.acquire.cta.min.u64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.acquire.cluster.min.u32
template <>
__device__ __forceinline__ std::uint32_t atom_min<order::acquire, scope::cluster>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.acquire.cluster.min.u32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.acquire.gpu.min.u32
template <>
__device__ __forceinline__ std::uint32_t atom_min<order::acquire, scope::device>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.acquire.gpu.min.u32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.acquire.cluster.min.u64
template <>
__device__ __forceinline__ std::uint64_t atom_min<order::acquire, scope::cluster>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.acquire.cluster.min.u64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.acquire.gpu.min.u64
template <>
__device__ __forceinline__ std::uint64_t atom_min<order::acquire, scope::device>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.acquire.gpu.min.u64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.acquire.sys.min.u32
template <>
__device__ __forceinline__ std::uint32_t atom_min<order::acquire, scope::system>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.acquire.sys.min.u32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.acquire.sys.min.u64
template <>
__device__ __forceinline__ std::uint64_t atom_min<order::acquire, scope::system>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.acquire.sys.min.u64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.release.cta.min.u32
template <>
__device__ __forceinline__ std::uint32_t atom_min<order::release, scope::block>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.release.cta.min.u32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.release.cta.min.u64
template <>
__device__ __forceinline__ std::uint64_t atom_min<order::release, scope::block>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.release.cta.min.u64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.release.cluster.min.u32
template <>
__device__ __forceinline__ std::uint32_t atom_min<order::release, scope::cluster>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.release.cluster.min.u32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.release.gpu.min.u32
template <>
__device__ __forceinline__ std::uint32_t atom_min<order::release, scope::device>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.release.gpu.min.u32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.release.cluster.min.u64
template <>
__device__ __forceinline__ std::uint64_t atom_min<order::release, scope::cluster>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.release.cluster.min.u64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.release.gpu.min.u64
template <>
__device__ __forceinline__ std::uint64_t atom_min<order::release, scope::device>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.release.gpu.min.u64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.release.sys.min.u32
template <>
__device__ __forceinline__ std::uint32_t atom_min<order::release, scope::system>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.release.sys.min.u32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.release.sys.min.u64
template <>
__device__ __forceinline__ std::uint64_t atom_min<order::release, scope::system>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.release.sys.min.u64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.acq_rel.cta.min.u32
template <>
__device__ __forceinline__ std::uint32_t atom_min<order::acq_rel, scope::block>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.acq_rel.cta.min.u32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.acq_rel.cta.min.u64
template <>
__device__ __forceinline__ std::uint64_t atom_min<order::acq_rel, scope::block>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.acq_rel.cta.min.u64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.acq_rel.cluster.min.u32
template <>
__device__ __forceinline__ std::uint32_t atom_min<order::acq_rel, scope::cluster>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.acq_rel.cluster.min.u32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.acq_rel.gpu.min.u32
template <>
__device__ __forceinline__ std::uint32_t atom_min<order::acq_rel, scope::device>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.acq_rel.gpu.min.u32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.acq_rel.cluster.min.u64
template <>
__device__ __forceinline__ std::uint64_t atom_min<order::acq_rel, scope::cluster>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.acq_rel.cluster.min.u64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.acq_rel.gpu.min.u64
template <>
__device__ __forceinline__ std::uint64_t atom_min<order::acq_rel, scope::device>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.acq_rel.gpu.min.u64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.acq_rel.sys.min.u32
template <>
__device__ __forceinline__ std::uint32_t atom_min<order::acq_rel, scope::system>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.acq_rel.sys.min.u32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.acq_rel.sys.min.u64
template <>
__device__ __forceinline__ std::uint64_t atom_min<order::acq_rel, scope::system>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.acq_rel.sys.min.u64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

}  // namespace baton::ptx
