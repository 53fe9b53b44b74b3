#pragma once
// The asynchronous half of the seam: mbarriers, the copy engine and clusters, for pipelines inside a block or a pair of
// blocks. A context that has these verbs satisfies async_exec_context.
//
//   verbs of one lane
//     mbarrier_init(b, arrivals)         phases complete after `arrivals` arrivals and no bytes outstanding
//     mbarrier_arrive(b, n)              n arrivals; release at block scope (cluster scope in a cluster)
//     mbarrier_arrive_expect(b, bytes)   one arrival that also lets the phase wait for `bytes` more bytes
//     mbarrier_arrive_at(b, block, n)    arrives at the same barrier of another block of the cluster
//     fence_mbarrier_init()              makes inits visible to the cluster and the copy engine
//     fence_proxy_async()                orders own plain shared-memory accesses before the copy engine's
//     fence_proxy_async_global()         orders what this lane knows of global memory, and the copy engine's accesses to it
//                                        that it has waited for, before its own and the engine's later ones
//     bulk_load(to, from, bytes, b)      the copy engine reads `bytes` (16 n) from global to shared memory, in pieces,
//                                        and counts them on b as they land
//     bulk_store(to, from, bytes)        shared to global; bulk_commit() closes a group of them
//   verbs of one lane, of contexts with groups (exec/group_mma.hpp)
//     reach(block)                       a block of the cluster, as store_counted takes it
//     store_counted(there, to, v, b)     v, of 4, 8 or 16 bytes, to where the block of `there` = reach(block) keeps `to`; counted
//                                        on its barrier b when it is there, at cluster scope. Tells of nothing else that it did.
//                                        In clusters of several blocks only: elsewhere it is no instruction
//     copy_word(to, from)                4 bytes from global to shared memory, without waiting
//     copy_chunk(to, from, bytes)        the same of 16, both aligned so; bytes 0: zeros in their place, `from` is not read
//     mbarrier_arrive_after_copies(b)    arrives once at b, now or when what this lane copied so is there; tells of these copies
//                                        at block scope, of nothing else. Several are on their way at a time, and no
//                                        register holds what they bring
//   verbs of the warp
//     commit_copies()                    of contexts with groups: closes a group of what its lanes copied by words and chunks
//     await_copies<newest>()             until all groups but the `newest` are there, for the lanes that asked for them
//     mbarrier_wait<scope>(b, p, where)  until the phase of parity p has completed; acquire. False: gave up
//     mbarrier_wait_or_note<scope>(b, p, which, where, late)
//                                        of contexts with groups: the same where registers are full. Of a deadline that passed it
//                                        notes `which`, not 0, in *late, a word of shared memory that was 0, and nothing may have
//                                        been told yet; with something noted it may end at once. Who finds something there in the
//                                        end calls report_late(where)
//     mbarrier_is_over<scope>(b, p)      of contexts with groups: whether it has, without waiting; if so, acquire. What a wait
//                                        would tell is left to a wait
//     bulk_wait_read<newest>()           until the sources of all own committed stores have been read, but for those of
//                                        the `newest` groups (0: all)
//     bulk_wait<newest>()                until they are done: what follows may tell of them
//     cluster_block(), cluster_blocks()  position in the cluster; 0 and 1 without one
//     in_block(p, block)                 where block `block` of the cluster keeps what is at p, in shared memory, here: for plain
//                                        accesses, which barriers of the cluster and arrivals at cluster scope order
//     sync_cluster()                     barrier of all warps of the cluster; orders memory among them
//     meet_cluster()                     the same, and orders nothing: nobody waits for what it stored before
//
// The copy engine is a participant of its own: it sees the issuer's earlier plain writes to shared memory only through
// fence_proxy_async, and what it writes is seen by whoever waited on the mbarrier it counts on.
#include <concepts>
#include <cstdint>

#include "exec/exec.hpp"

namespace baton {

/// One mbarrier in shared memory; opaque, touched only by the verbs.
struct alignas(8) mbarrier {
  std::uint64_t opaque;
};

/// Phases of an mbarrier alternate: the first is even. The phase before the first counts as complete and odd.
enum class parity : std::uint32_t { even, odd };
constexpr parity operator!(parity p) {
  return p == parity::even ? parity::odd : parity::even;
}
/// Parity of the k-th phase, k = 0, 1, ...
constexpr parity parity_of(std::uint32_t k) {
  return k % 2 == 0 ? parity::even : parity::odd;
}

template <class X>
concept async_exec_context = exec_context<X> &&
    requires(X& x, mbarrier* b, std::byte* memory, wait_site where) {
  x.mbarrier_init(b, 1);
  x.mbarrier_arrive(b, 1);
  x.mbarrier_arrive_expect(b, 16);
  x.mbarrier_arrive_at(b, 0, 1);
  x.fence_mbarrier_init();
  x.fence_proxy_async();
  x.fence_proxy_async_global();
  x.bulk_load(memory, memory, 16, b);
  x.bulk_store(memory, memory, 16);
  x.bulk_commit();
  x.bulk_wait_read();
  x.template bulk_wait_read<1>();
  x.bulk_wait();
  x.template bulk_wait<1>();
  { x.template mbarrier_wait<scope::block>(b, parity::even, where) } -> std::same_as<bool>;
  { x.cluster_block() } -> std::convertible_to<int>;
  { x.cluster_blocks() } -> std::convertible_to<int>;
  { x.in_block(memory, 0) } -> std::same_as<std::byte*>;
  x.sync_cluster();
  x.meet_cluster();
};

}  // namespace baton
