#pragma once
// ld: strong loads through a generic address; one specialisation is one instruction. Orders and scopes
// without one do not compile.  (PTX 6.0, sm_70; .cluster: 7.8, sm_90)
// PTX ISA 9.7.9.8 "Data Movement and Conversion Instructions: ld".
#include <cstdint>

#include "exec/order.hpp"

namespace baton::ptx {

template <order Order, scope Scope, class Word>
__device__ Word ld(const Word*) = delete;

/// ld.relaxed.cta.u32
template <>
__device__ __forceinline__ std::uint32_t ld<order::relaxed, scope::block>(const std::uint32_t* from) {
  std::uint32_t value;
  asm volatile("ld.relaxed.cta.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}

/// ld.relaxed.cta.u64
template <>
__device__ __forceinline__ std::uint64_t ld<order::relaxed, scope::block>(const std::uint64_t* from) {
  std::uint64_t value;
  asm volatile("ld.relaxed.cta.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}

/// ld.relaxed.cluster.u32
template <>
__device__ __forceinline__ std::uint32_t ld<order::relaxed, scope::cluster>(const std::uint32_t* from) {
  std::uint32_t value;
  asm volatile("ld.relaxed.cluster.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}

/// ld.relaxed.gpu.u32
template <>
__device__ __forceinline__ std::uint32_t ld<order::relaxed, scope::device>(const std::uint32_t* from) {
  std::uint32_t value;
  asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}

/// ld.relaxed.cluster.u64
template <>
__device__ __forceinline__ std::uint64_t ld<order::relaxed, scope::cluster>(const std::uint64_t* from) {
  std::uint64_t value;
  asm volatile("ld.relaxed.cluster.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}

/// ld.relaxed.gpu.u64
template <>
__device__ __forceinline__ std::uint64_t ld<order::relaxed, scope::device>(const std::uint64_t* from) {
  std::uint64_t value;
  asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}

/// ld.relaxed.sys.u32
template <>
__device__ __forceinline__ std::uint32_t ld<order::relaxed, scope::system>(const std::uint32_t* from) {
  std::uint32_t value;
  asm volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}

/// ld.relaxed.sys.u64
template <>
__device__ __forceinline__ std::uint64_t ld<order::relaxed, scope::system>(const std::uint64_t* from) {
  std::uint64_t value;
  asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}

/// ld.acquire.cta.u32
template <>
__device__ __forceinline__ std::uint32_t ld<order::acquire, scope::block>(const std::uint32_t* from) {
  std::uint32_t value;
  asm volatile("ld.acquire.cta.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}

/// ld.acquire.cta.u64
template <>
__device__ __forceinline__ std::uint64_t ld<order::acquire, scope::block>(const std::uint64_t* from) {
  std::uint64_t value;
  asm volatile("ld.acquire.cta.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}

/// ld.acquire.cluster.u32
template <>
__device__ __forceinline__ std::uint32_t ld<order::acquire, scope::cluster>(const std::uint32_t* from) {
  std::uint32_t value;
  asm volatile("ld.acquire.cluster.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}

/// ld.acquire.gpu.u32
template <>
__device__ __forceinline__ std::uint32_t ld<order::acquire, scope::device>(const std::uint32_t* from) {
  std::uint32_t value;
  asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}

/// ld.acquire.cluster.u64
template <>
__device__ __forceinline__ std::uint64_t ld<order::acquire, scope::cluster>(const std::uint64_t* from) {
  std::uint64_t value;
  asm volatile("ld.acquire.cluster.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}

/// ld.acquire.gpu.u64
template <>
__device__ __forceinline__ std::uint64_t ld<order::acquire, scope::device>(const std::uint64_t* from) {
  std::uint64_t value;
  asm volatile("ld.acquire.gpu.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}

/// ld.acquire.sys.u32
template <>
__device__ __forceinline__ std::uint32_t ld<order::acquire, scope::system>(const std::uint32_t* from) {
  std::uint32_t value;
  asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}

/// ld.acquire.sys.u64
template <>
__device__ __forceinline__ std::uint64_t ld<order::acquire, scope::system>(const std::uint64_t* from) {
  std::uint64_t value;
  asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}

}  // namespace baton::ptx
