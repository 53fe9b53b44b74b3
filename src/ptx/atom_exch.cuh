#pragma once
// atom.exch: atomically stores `value` at a word behind a generic address and gives what was there. One
// specialisation is one instruction.  (PTX 6.0, sm_70; .cluster: 7.8, sm_90)
// PTX ISA 9.7.13.5 "Parallel Synchronization and Communication Instructions: atom".
#include <cstdint>

#include "exec/order.hpp"

namespace baton::ptx {

template <order Order, scope Scope, class Word>
__device__ Word atom_exch(Word*, Word) = delete;

/// atom.relaxed.cta.exch.b32
template <>
__device__ __forceinline__ std::uint32_t atom_exch<order::relaxed, scope::block>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.relaxed.cta.exch.b32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.relaxed.cta.exch.b64
template <>
__device__ __forceinline__ std::uint64_t atom_exch<order::relaxed, scope::block>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.relaxed.cta.exch.b64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.relaxed.cluster.exch.b32
template <>
__device__ __forceinline__ std::uint32_t atom_exch<order::relaxed, scope::cluster>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.relaxed.cluster.exch.b32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.relaxed.gpu.exch.b32
template <>
__device__ __forceinline__ std::uint32_t atom_exch<order::relaxed, scope::device>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.relaxed.gpu.exch.b32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.relaxed.cluster.exch.b64
template <>
__device__ __forceinline__ std::uint64_t atom_exch<order::relaxed, scope::cluster>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.relaxed.cluster.exch.b64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.relaxed.gpu.exch.b64
template <>
__device__ __forceinline__ std::uint64_t atom_exch<order::relaxed, scope::device>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.relaxed.gpu.exch.b64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.relaxed.sys.exch.b32
template <>
__device__ __forceinline__ std::uint32_t atom_exch<order::relaxed, scope::system>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.relaxed.sys.exch.b32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.relaxed.sys.exch.b64
template <>
__device__ __forceinline__ std::uint64_t atom_exch<order::relaxed, scope::system>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.relaxed.sys.exch.b64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.acquire.cta.exch.b32
template <>
__device__ __forceinline__ std::uint32_t atom_exch<order::acquire, scope::block>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.acquire.cta.exch.b32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.acquire.cta.exch.b64
template <>
__device__ __forceinline__ std::uint64_t atom_exch<order::acquire, scope::block>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.acquire.cta.exch.b64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.acquire.cluster.exch.b32
template <>
__device__ __forceinline__ std::uint32_t atom_exch<order::acquire, scope::cluster>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.acquire.cluster.exch.b32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.acquire.gpu.exch.b32
template <>
__device__ __forceinline__ std::uint32_t atom_exch<order::acquire, scope::device>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.acquire.gpu.exch.b32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.acquire.cluster.exch.b64
template <>
__device__ __forceinline__ std::uint64_t atom_exch<order::acquire, scope::cluster>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.acquire.cluster.exch.b64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.acquire.gpu.exch.b64
template <>
__device__ __forceinline__ std::uint64_t atom_exch<order::acquire, scope::device>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.acquire.gpu.exch.b64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.acquire.sys.exch.b32
template <>
__device__ __forceinline__ std::uint32_t atom_exch<order::acquire, scope::system>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.acquire.sys.exch.b32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.acquire.sys.exch.b64
template <>
__device__ __forceinline__ std::uint64_t atom_exch<order::acquire, scope::system>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.acquire.sys.exch.b64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.release.cta.exch.b32
template <>
__device__ __forceinline__ std::uint32_t atom_exch<order::release, scope::block>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.release.cta.exch.b32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.release.cta.exch.b64
template <>
__device__ __forceinline__ std::uint64_t atom_exch<order::release, scope::block>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.release.cta.exch.b64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.release.cluster.exch.b32
template <>
__device__ __forceinline__ std::uint32_t atom_exch<order::release, scope::cluster>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.release.cluster.exch.b32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.release.gpu.exch.b32
template <>
__device__ __forceinline__ std::uint32_t atom_exch<order::release, scope::device>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.release.gpu.exch.b32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.release.cluster.exch.b64
template <>
__device__ __forceinline__ std::uint64_t atom_exch<order::release, scope::cluster>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.release.cluster.exch.b64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.release.gpu.exch.b64
template <>
__device__ __forceinline__ std::uint64_t atom_exch<order::release, scope::device>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.release.gpu.exch.b64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.release.sys.exch.b32
template <>
__device__ __forceinline__ std::uint32_t atom_exch<order::release, scope::system>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.release.sys.exch.b32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.release.sys.exch.b64
template <>
__device__ __forceinline__ std::uint64_t atom_exch<order::release, scope::system>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.release.sys.exch.b64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.acq_rel.cta.exch.b32
template <>
__device__ __forceinline__ std::uint32_t atom_exch<order::acq_rel, scope::block>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.acq_rel.cta.exch.b32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.acq_rel.cta.exch.b64
template <>
__device__ __forceinline__ std::uint64_t atom_exch<order::acq_rel, scope::block>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.acq_rel.cta.exch.b64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.acq_rel.cluster.exch.b32
template <>
__device__ __forceinline__ std::uint32_t atom_exch<order::acq_rel, scope::cluster>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.acq_rel.cluster.exch.b32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.acq_rel.gpu.exch.b32
template <>
__device__ __forceinline__ std::uint32_t atom_exch<order::acq_rel, scope::device>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.acq_rel.gpu.exch.b32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.acq_rel.cluster.exch.b64
template <>
__device__ __forceinline__ std::uint64_t atom_exch<order::acq_rel, scope::cluster>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.acq_rel.cluster.exch.b64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.acq_rel.gpu.exch.b64
template <>
__device__ __forceinline__ std::uint64_t atom_exch<order::acq_rel, scope::device>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.acq_rel.gpu.exch.b64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

/// atom.acq_rel.sys.exch.b32
template <>
__device__ __forceinline__ std::uint32_t atom_exch<order::acq_rel, scope::system>(std::uint32_t* at, std::uint32_t value) {
  std::uint32_t old;
  asm volatile("atom.acq_rel.sys.exch.b32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  return old;
}

/// atom.acq_rel.sys.exch.b64
template <>
__device__ __forceinline__ std::uint64_t atom_exch<order::acq_rel, scope::system>(std::uint64_t* at, std::uint64_t value) {
  std::uint64_t old;
  asm volatile("atom.acq_rel.sys.exch.b64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(value) : "memory");
  return old;
}

}  // namespace baton::ptx
