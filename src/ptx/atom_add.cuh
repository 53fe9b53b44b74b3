#pragma once
// atom.add: atomically adds `value` to a word behind a generic address and gives what was there. One
// specialisation is one instruction.  (PTX 6.0, sm_70; .cluster: 7.8, sm_90)
// PTX ISA 9.7.13.5 "Parallel Synchronization and Communication Instructions: atom".
#include <cstdint>

#include "exec/order.hpp"

namespace baton::ptx {

template <order Order, scope Scope, class Word>
__device__ Word atom_add(Word*, Word) = delete;

/// atom.relaxed.cta.add.u32
template <>
__device__ __forceinline__ std::uint32_t atom_add<order::relaxed, scope::block>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.relaxed.cta.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.relaxed.cta.add.u64
template <>
__device__ __forceinline__ std::uint64_t atom_add<order::relaxed, scope::block>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.relaxed.cta.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.relaxed.cluster.add.u32
template <>
__device__ __forceinline__ std::uint32_t atom_add<order::relaxed, scope::cluster>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.relaxed.cluster.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.relaxed.gpu.add.u32
template <>
__device__ __forceinline__ std::uint32_t atom_add<order::relaxed, scope::device>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.relaxed.gpu.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.relaxed.cluster.add.u64
template <>
__device__ __forceinline__ std::uint64_t atom_add<order::relaxed, scope::cluster>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.relaxed.cluster.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.relaxed.gpu.add.u64
template <>
__device__ __forceinline__ std::uint64_t atom_add<order::relaxed, scope::device>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.relaxed.gpu.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.relaxed.sys.add.u32
template <>
__device__ __forceinline__ std::uint32_t atom_add<order::relaxed, scope::system>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.relaxed.sys.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.relaxed.sys.add.u64
template <>
__device__ __forceinline__ std::uint64_t atom_add<order::relaxed, scope::system>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.relaxed.sys.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.acquire.cta.add.u32
template <>
__device__ __forceinline__ std::uint32_t atom_add<order::acquire, scope::block>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.acquire.cta.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.acquire.cta.add.u64
template <>
__device__ __forceinline__ std::uint64_t atom_add<order::acquire, scope::block>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.acquire.cta.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.acquire.cluster.add.u32
template <>
__device__ __forceinline__ std::uint32_t atom_add<order::acquire, scope::cluster>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.acquire.cluster.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.acquire.gpu.add.u32
template <>
__device__ __forceinline__ std::uint32_t atom_add<order::acquire, scope::device>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.acquire.gpu.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.acquire.cluster.add.u64
template <>
__device__ __forceinline__ std::uint64_t atom_add<order::acquire, scope::cluster>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.acquire.cluster.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.acquire.gpu.add.u64
template <>
__device__ __forceinline__ std::uint64_t atom_add<order::acquire, scope::device>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.acquire.gpu.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.acquire.sys.add.u32
template <>
__device__ __forceinline__ std::uint32_t atom_add<order::acquire, scope::system>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.acquire.sys.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.acquire.sys.add.u64
template <>
__device__ __forceinline__ std::uint64_t atom_add<order::acquire, scope::system>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.acquire.sys.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.release.cta.add.u32
template <>
__device__ __forceinline__ std::uint32_t atom_add<order::release, scope::block>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.release.cta.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.release.cta.add.u64
template <>
__device__ __forceinline__ std::uint64_t atom_add<order::release, scope::block>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.release.cta.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.release.cluster.add.u32
template <>
__device__ __forceinline__ std::uint32_t atom_add<order::release, scope::cluster>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.release.cluster.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.release.gpu.add.u32
template <>
__device__ __forceinline__ std::uint32_t atom_add<order::release, scope::device>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.release.gpu.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.release.cluster.add.u64
template <>
__device__ __forceinline__ std::uint64_t atom_add<order::release, scope::cluster>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.release.cluster.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.release.gpu.add.u64
template <>
__device__ __forceinline__ std::uint64_t atom_add<order::release, scope::device>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.release.gpu.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.release.sys.add.u32
template <>
__device__ __forceinline__ std::uint32_t atom_add<order::release, scope::system>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.release.sys.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.release.sys.add.u64
template <>
__device__ __forceinline__ std::uint64_t atom_add<order::release, scope::system>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.release.sys.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.acq_rel.cta.add.u32
template <>
__device__ __forceinline__ std::uint32_t atom_add<order::acq_rel, scope::block>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.acq_rel.cta.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.acq_rel.cta.add.u64
template <>
__device__ __forceinline__ std::uint64_t atom_add<order::acq_rel, scope::block>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.acq_rel.cta.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.acq_rel.cluster.add.u32
template <>
__device__ __forceinline__ std::uint32_t atom_add<order::acq_rel, scope::cluster>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.acq_rel.cluster.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.acq_rel.gpu.add.u32
template <>
__device__ __forceinline__ std::uint32_t atom_add<order::acq_rel, scope::device>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.acq_rel.gpu.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.acq_rel.cluster.add.u64
template <>
__device__ __forceinline__ std::uint64_t atom_add<order::acq_rel, scope::cluster>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.acq_rel.cluster.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.acq_rel.gpu.add.u64
template <>
__device__ __forceinline__ std::uint64_t atom_add<order::acq_rel, scope::device>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.acq_rel.gpu.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.acq_rel.sys.add.u32
template <>
__device__ __forceinline__ std::uint32_t atom_add<order::acq_rel, scope::system>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.acq_rel.sys.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.acq_rel.sys.add.u64
template <>
__device__ __forceinline__ std::uint64_t atom_add<order::acq_rel, scope::system>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.acq_rel.sys.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

}  // namespace baton::ptx
