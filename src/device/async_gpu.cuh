#pragma once
// The execution context that every kernel is given: gpu, the matrix verbs, lines, and the asynchronous ones. What each verb
// means: exec/mbarrier.hpp.
//
// `ClusterBlocks` is the cluster's size that the kernel is launched with; 1 keeps arrivals and waits at block scope, 0 is any
// size.
#include "device/line_gpu.cuh"
#include "exec/mbarrier.hpp"
#include "ptx/cluster.cuh"
#include "ptx/cp_async.cuh"

namespace baton {

template <int ClusterBlocks = 1>
class async_gpu : public line_gpu {
 public:
  using line_gpu::line_gpu;

  BATON_FN static int cluster_blocks() {
    if constexpr (ClusterBlocks == 0) return static_cast<int>(cuda::ptx::get_sreg_cluster_nctarank());
    return ClusterBlocks;
  }
  BATON_FN static int cluster_block() {
    if constexpr (in_cluster) return static_cast<int>(cuda::ptx::get_sreg_cluster_ctarank());
    return 0;
  }
  template <class T>
  BATON_FN static T* in_block(T* at, int block) {
    return ptx::mapa_generic(at, static_cast<std::uint32_t>(block));
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

  BATON_FN static void meet_cluster() {
    if constexpr (in_cluster) {
      ptx::barrier_cluster_arrive_relaxed();
      ptx::barrier_cluster_wait();
    } else {
      __syncthreads();
    }
  }

  BATON_FN static void mbarrier_init(mbarrier* b, int arrivals) {
    cuda::ptx::mbarrier_init(&b->opaque, static_cast<std::uint32_t>(arrivals));
  }
  template <scope Reach = scope::cluster>
  BATON_FN static void mbarrier_arrive(mbarrier* b, int n) {
    cuda::ptx::mbarrier_arrive(cuda::ptx::sem_release, scope_tag<Reach>{}, cuda::ptx::space_shared,
                               &b->opaque, static_cast<std::uint32_t>(n));
  }
  template <scope Reach = scope::cluster>
  BATON_FN static void mbarrier_arrive_expect(mbarrier* b, int bytes) {
    cuda::ptx::mbarrier_arrive_expect_tx(cuda::ptx::sem_release, scope_tag<Reach>{}, cuda::ptx::space_shared,
                                         &b->opaque, static_cast<std::uint32_t>(bytes));
  }
  template <scope Reach = scope::cluster>
  BATON_FN static void mbarrier_arrive_at(mbarrier* b, int block, int n) {
    const std::uint32_t there = ptx::mapa(ptx::shared_address(b), static_cast<std::uint32_t>(block));
    if constexpr (Reach == scope::block)
      ptx::mbarrier_arrive_remote_cta(there, static_cast<std::uint32_t>(n));
    else
      ptx::mbarrier_arrive_remote(there, static_cast<std::uint32_t>(n));
  }
  BATON_FN static void fence_mbarrier_init() {
    cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
  }
  BATON_FN static void fence_proxy_async() { cuda::ptx::fence_proxy_async(cuda::ptx::space_shared); }
  BATON_FN static void fence_proxy_async_global() { cuda::ptx::fence_proxy_async(cuda::ptx::space_global); }

  BATON_FN static void bulk_load(void* to, const void* from, int bytes, mbarrier* b) {
    cuda::ptx::cp_async_bulk(cuda::ptx::space_shared, cuda::ptx::space_global, to, from,
                             static_cast<std::uint32_t>(bytes), &b->opaque);
  }
  BATON_FN static void bulk_store(void* to, const void* from, int bytes) {
    cuda::ptx::cp_async_bulk(cuda::ptx::space_global, cuda::ptx::space_shared, to, from,
                             static_cast<std::uint32_t>(bytes));
  }
  BATON_FN static void bulk_commit() { cuda::ptx::cp_async_bulk_commit_group(); }
  template <int newest = 0>
  BATON_FN static void bulk_wait_read() {
    cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<newest>{});
    __syncwarp();
  }
  template <int newest = 0>
  BATON_FN static void bulk_wait() {
    cuda::ptx::cp_async_bulk_wait_group(cuda::ptx::n32_t<newest>{});
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
  template <scope Scope>
  BATON_FN void mbarrier_wait_or_note(mbarrier* b, parity p, std::uint32_t which, const wait_site& where,
                                      std::uint32_t* late) const {
    ptx::await_phase_or_note<in_cluster && Scope != scope::block>(
        ptx::shared_address(b), static_cast<std::uint32_t>(p), ptx::shared_address(late),
        limits().deadline_ns * where.patience, limits().abort, which);
  }
  BATON_FN void report_late(const wait_site& where) const {
    if (__any_sync(whole_warp, has_given_up()) == 0) this->report_as_late(where);
  }
  BATON_FN static void copy_word(void* to, const void* from) { ptx::cp_async_4(to, from); }
  BATON_FN static void copy_chunk(void* to, const void* from, int bytes) {
    ptx::cp_async_16(to, from, bytes);
  }
  BATON_FN static void commit_copies() { ptx::cp_async_commit(); }
  template <int newest>
  BATON_FN static void await_copies() {
    ptx::cp_async_wait<newest>();
  }
  BATON_FN static void mbarrier_arrive_after_copies(mbarrier* b) { ptx::cp_async_arrive(&b->opaque); }
  template <scope Scope = scope::cluster>
  BATON_FN bool mbarrier_is_over(mbarrier* b, parity p) {
    const bool over = __all_sync(whole_warp, try_wait<Scope>(b, p));
    __syncwarp();
    return over;
  }

 private:
  static constexpr bool in_cluster = ClusterBlocks != 1;
  template <scope Reach>
  using scope_tag = std::conditional_t<in_cluster && Reach != scope::block, cuda::ptx::scope_cluster_t,
                                       cuda::ptx::scope_cta_t>;
  static constexpr std::uint32_t tries_between_clock_reads = 4;

  /// Acquire. False: not yet.
  template <scope Scope>
  BATON_FN static bool try_wait(mbarrier* b, parity p) {
    return cuda::ptx::mbarrier_try_wait_parity(cuda::ptx::sem_acquire, scope_tag<Scope>{}, &b->opaque,
                                               static_cast<std::uint32_t>(p));
  }

  BATON_FN bool phase_gives_up(const mbarrier* b, parity p, wait_site where, std::uint64_t& start) {
    where.expected = static_cast<std::uint64_t>(p);
    const std::uint32_t offset = ptx::shared_address(b) - ptx::shared_address(gpu_shared_memory);
    return gives_up(false, offset, where, start);
  }
};
static_assert(line_exec_context<async_gpu<1>> && line_exec_context<async_gpu<2>>);

}  // namespace baton
