#pragma once
// Fences between ordinary accesses and those of the copy engine.                 (PTX 8.0, sm_90)
namespace baton::ptx {

/// fence.proxy.async.shared::cta: accesses to shared memory
__device__ __forceinline__ void fence_proxy_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// fence.mbarrier_init.release.cluster: earlier mbarrier inits, for the cluster and the copy engine
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

}  // namespace baton::ptx
