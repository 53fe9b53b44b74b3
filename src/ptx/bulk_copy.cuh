#pragma once
// cp.async.bulk: the copy engine moves contiguous bytes. Addresses and size are multiples of 16.  (PTX 8.6, sm_90)
// PTX ISA 9.7.9.25 "Data Movement and Conversion Instructions: Asynchronous copy".
#include <cstdint>

#include "ptx/mbarrier.cuh"

namespace baton::ptx {

/// cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes
/// Counts the bytes on `b` of the same block as they land.
__device__ __forceinline__ void bulk_load(void* to_shared, const void* from_global, std::uint32_t bytes,
                                          mbarrier* b) {
  asm volatile("cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"(shared_address(to_shared)), "l"(from_global), "r"(bytes), "r"(shared_address(b))
               : "memory");
}

/// cp.async.bulk.global.shared::cta.bulk_group
__device__ __forceinline__ void bulk_store(void* to_global, const void* from_shared, std::uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
               :: "l"(to_global), "r"(shared_address(from_shared)), "r"(bytes)
               : "memory");
}

/// cp.async.bulk.commit_group: closes this thread's group of stores.
__device__ __forceinline__ void bulk_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/// cp.async.bulk.wait_group.read 0: until the sources of all this thread's committed stores have been read.
__device__ __forceinline__ void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

}  // namespace baton::ptx
