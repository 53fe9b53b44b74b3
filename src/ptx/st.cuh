#pragma once
// st: strong stores through a generic address; one specialisation is one instruction. Orders and scopes
// without one do not compile.  (PTX 6.0, sm_70; .cluster: 7.8, sm_90)
// PTX ISA 9.7.9.12 "Data Movement and Conversion Instructions: st".
#include <cstdint>

#include "exec/order.hpp"

namespace baton::ptx {

template <order Order, scope Scope, class Word>
__device__ void st(Word*, Word) = delete;

/// st.relaxed.cta.u32
template <>
__device__ __forceinline__ void st<order::relaxed, scope::block>(std::uint32_t* to, std::uint32_t value) {
  asm volatile("st.relaxed.cta.u32 [%0], %1;" :: "l"(to), "r"(value) : "memory");
}

/// st.relaxed.cta.u64
template <>
__device__ __forceinline__ void st<order::relaxed, scope::block>(std::uint64_t* to, std::uint64_t value) {
  asm volatile("st.relaxed.cta.u64 [%0], %1;" :: "l"(to), "l"(value) : "memory");
}

/// st.relaxed.cluster.u32
template <>
__device__ __forceinline__ void st<order::relaxed, scope::cluster>(std::uint32_t* to, std::uint32_t value) {
  asm volatile("st.relaxed.cluster.u32 [%0], %1;" :: "l"(to), "r"(value) : "memory");
}

/// st.relaxed.gpu.u32
template <>
__device__ __forceinline__ void st<order::relaxed, scope::device>(std::uint32_t* to, std::uint32_t value) {
  asm volatile("st.relaxed.gpu.u32 [%0], %1;" :: "l"(to), "r"(value) : "memory");
}

/// st.relaxed.cluster.u64
template <>
__device__ __forceinline__ void st<order::relaxed, scope::cluster>(std::uint64_t* to, std::uint64_t value) {
  asm volatile("st.relaxed.cluster.u64 [%0], %1;" :: "l"(to), "l"(value) : "memory");
}

/// st.relaxed.gpu.u64
template <>
__device__ __forceinline__ void st<order::relaxed, scope::device>(std::uint64_t* to, std::uint64_t value) {
  asm volatile("st.relaxed.gpu.u64 [%0], %1;" :: "l"(to), "l"(value) : "memory");
}

/// st.relaxed.sys.u32
template <>
__device__ __forceinline__ void st<order::relaxed, scope::system>(std::uint32_t* to, std::uint32_t value) {
  asm volatile("st.relaxed.sys.u32 [%0], %1;" :: "l"(to), "r"(value) : "memory");
}

/// st.relaxed.sys.u64
template <>
__device__ __forceinline__ void st<order::relaxed, scope::system>(std::uint64_t* to, std::uint64_t value) {
  asm volatile("st.relaxed.sys.u64 [%0], %1;" :: "l"(to), "l"(value) : "memory");
}

/// st.release.cta.u32
template <>
__device__ __forceinline__ void st<order::release, scope::block>(std::uint32_t* to, std::uint32_t value) {
  asm volatile("st.release.cta.u32 [%0], %1;" :: "l"(to), "r"(value) : "memory");
}

/// st.release.cta.u64
template <>
__device__ __forceinline__ void st<order::release, scope::block>(std::uint64_t* to, std::uint64_t value) {
  asm volatile("st.release.cta.u64 [%0], %1;" :: "l"(to), "l"(value) : "memory");
}

/// st.release.cluster.u32
template <>
__device__ __forceinline__ void st<order::release, scope::cluster>(std::uint32_t* to, std::uint32_t value) {
  asm volatile("st.release.cluster.u32 [%0], %1;" :: "l"(to), "r"(value) : "memory");
}

/// st.release.gpu.u32
template <>
__device__ __forceinline__ void st<order::release, scope::device>(std::uint32_t* to, std::uint32_t value) {
  asm volatile("st.release.gpu.u32 [%0], %1;" :: "l"(to), "r"(value) : "memory");
}

/// st.release.cluster.u64
template <>
__device__ __forceinline__ void st<order::release, scope::cluster>(std::uint64_t* to, std::uint64_t value) {
  asm volatile("st.release.cluster.u64 [%0], %1;" :: "l"(to), "l"(value) : "memory");
}

/// st.release.gpu.u64
template <>
__device__ __forceinline__ void st<order::release, scope::device>(std::uint64_t* to, std::uint64_t value) {
  asm volatile("st.release.gpu.u64 [%0], %1;" :: "l"(to), "l"(value) : "memory");
}

/// st.release.sys.u32
template <>
__device__ __forceinline__ void st<order::release, scope::system>(std::uint32_t* to, std::uint32_t value) {
  asm volatile("st.release.sys.u32 [%0], %1;" :: "l"(to), "r"(value) : "memory");
}

/// st.release.sys.u64
template <>
__device__ __forceinline__ void st<order::release, scope::system>(std::uint64_t* to, std::uint64_t value) {
  asm volatile("st.release.sys.u64 [%0], %1;" :: "l"(to), "l"(value) : "memory");
}

}  // namespace baton::ptx
