#pragma once
// fence: orders this thread's accesses at a scope. There is no release-only or acquire-only fence on sm_90:
// both are fence.acq_rel.  (PTX 6.0, sm_70; .cluster: 7.8, sm_90)
#include "exec/order.hpp"

namespace baton::ptx {

template <scope Scope>
__device__ void fence_acq_rel() = delete;

/// fence.acq_rel.cta
template <>
__device__ __forceinline__ void fence_acq_rel<scope::block>() {
  asm volatile("fence.acq_rel.cta;" ::: "memory");
}

/// fence.acq_rel.cluster
template <>
__device__ __forceinline__ void fence_acq_rel<scope::cluster>() {
  asm volatile("fence.acq_rel.cluster;" ::: "memory");
}

/// fence.acq_rel.gpu
template <>
__device__ __forceinline__ void fence_acq_rel<scope::device>() {
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
}

/// fence.acq_rel.sys
template <>
__device__ __forceinline__ void fence_acq_rel<scope::system>() {
  asm volatile("fence.acq_rel.sys;" ::: "memory");
}

}  // namespace baton::ptx
