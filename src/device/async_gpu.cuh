#pragma once
// The execution context of pipelines: gpu, the matrix verbs and the asynchronous ones. What each verb means: exec/mbarrier.hpp.
//
// `ClusterBlocks` is the cluster's size that the kernel is launched with; 1 keeps arrivals and waits at block
// scope.
#include "device/mma_gpu.cuh"
#include "exec/mbarrier.hpp"
#include "ptx/bulk_copy.cuh"
#include "ptx/cluster.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/proxy.cuh"

namespace baton {

template <int ClusterBlocks = 1>
class async_gpu : public mma_gpu {
 public:
  using mma_gpu::mma_gpu;

  BATON_FN static int cluster_blocks() { return ClusterBlocks; }
  BATON_FN static int cluster_block() {
    if constexpr (in_cluster) return static_cast<int>(ptx::cluster_ctarank());
    return 0;
  }
  /// All threads of all blocks of the cluster.
  BATON_FN static void sync_cluster() {
    if constexpr (in_cluster) {
      ptx::barrier_cluster_arrive();
      ptx::barrier_cluster_wait();
    } else {
      __syncthreads();
    }
  }

  BATON_FN static void mbarrier_init(mbarrier* b, int arrivals) {
    ptx::mbarrier_init(b, static_cast<std::uint32_t>(arrivals));
  }
  BATON_FN static void mbarrier_arrive(mbarrier* b, int n) {
    if constexpr (in_cluster)
      ptx::mbarrier_arrive_cluster(b, static_cast<std::uint32_t>(n));
    else
      ptx::mbarrier_arrive_cta(b, static_cast<std::uint32_t>(n));
  }
  BATON_FN static void mbarrier_arrive_expect(mbarrier* b, int bytes) {
    if constexpr (in_cluster)
      ptx::mbarrier_arrive_expect_tx_cluster(b, static_cast<std::uint32_t>(bytes));
    else
      ptx::mbarrier_arrive_expect_tx_cta(b, static_cast<std::uint32_t>(bytes));
  }
  BATON_FN static void mbarrier_arrive_at(mbarrier* b, int block, int n) {
    const std::uint32_t there = ptx::mapa(ptx::shared_address(b), static_cast<std::uint32_t>(block));
    ptx::mbarrier_arrive_remote(there, static_cast<std::uint32_t>(n));
  }
  BATON_FN static void fence_mbarrier_init() { ptx::fence_mbarrier_init(); }
  BATON_FN static void fence_proxy_async() { ptx::fence_proxy_async_shared(); }

  BATON_FN static void bulk_load(void* to, const void* from, int bytes, mbarrier* b) {
    ptx::bulk_load(to, from, static_cast<std::uint32_t>(bytes), b);
  }
  BATON_FN static void bulk_store(void* to, const void* from, int bytes) {
    ptx::bulk_store(to, from, static_cast<std::uint32_t>(bytes));
  }
  BATON_FN static void bulk_commit() { ptx::bulk_commit(); }
  BATON_FN static void bulk_wait_read() {
    ptx::bulk_wait_read();
    __syncwarp();
  }

  /// All lanes try, and suspend in hardware between tries. The clock starts a few tries into the wait. A time-out
  /// reports the parity as expected and the barrier's offset in shared memory as seen.
  template <scope Scope>
  BATON_FN bool mbarrier_wait(mbarrier* b, parity p, const wait_site& where) {
    static_assert(Scope <= scope::cluster, "an mbarrier reaches no further than its cluster");
    std::uint64_t start = 0;
    for (std::uint32_t tries = 1;; ++tries) {
      if (__all_sync(whole_warp, try_wait<Scope>(b, p))) break;
      if (tries % tries_between_clock_reads == 0 && phase_gives_up(b, p, where, start)) return false;
    }
    __syncwarp();
    return true;
  }

 private:
  static constexpr bool in_cluster = ClusterBlocks > 1;
  static constexpr std::uint32_t tries_between_clock_reads = 4;

  template <scope Scope>
  BATON_FN static bool try_wait(mbarrier* b, parity p) {
    if constexpr (in_cluster && Scope != scope::block)
      return ptx::mbarrier_try_wait_parity_cluster(b, p);
    else
      return ptx::mbarrier_try_wait_parity_cta(b, p);
  }

  BATON_FN bool phase_gives_up(const mbarrier* b, parity p, wait_site where, std::uint64_t& start) {
    where.expected = static_cast<std::uint64_t>(p);
    const std::uint32_t offset = ptx::shared_address(b) - ptx::shared_address(gpu_shared_memory);
    return gives_up(false, offset, where, start);
  }
};
static_assert(async_exec_context<async_gpu<1>> && async_exec_context<async_gpu<2>>);

}  // namespace baton
