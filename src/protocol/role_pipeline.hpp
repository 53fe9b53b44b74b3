#pragma once
// A pipeline between two roles, over two rings of mbarriers: a view of the mbarrier pipeline (mbarrier_pipeline.hpp), whose P1
// and P2 are R1 and R2 here. Each end is a type of its own: the producer's has acquire, commit and commit_mma, the consumer's
// has wait, release and release_no_step.
//
//   cell                                      completes after              means
//   producer[stage * producer_sub + sub]      the producer's arrivals      the stage holds what the consumer
//                                                                          waits for
//   consumer[stage * consumer_sub + sub]      the consumers' arrivals      the stage may be overwritten
//
//   stage     event                 becomes   by        barrier
//   free      producer.acquire()    filling   producer  waits for consumer's phase n - 1          (R2)
//   filling   producer.commit()     filled    producer  arrives at producer, phase n              (R1)
//   filling   producer.commit_mma() filled    engine    arrives there once the products are done  (R1, M1)
//   filled    consumer.wait()       in use    consumer  waits for producer's phase n              (R1)
//   in use    consumer.release()    free      consumer  arrives at consumer, phase n              (R2)
//
// R1: what the producer (or its engine, see mma_commit.hpp) did before the n-th commit happens before the
//     n-th wait's return.
// R2: what every consumer did before its n-th release happens before the return of the acquire of lap n + 1.
// Start:    both ends at stage 0. The producer starts at odd parity: an untouched barrier counts the phase
//           before its first as complete, so the first lap's acquires fall through. Where the first acquire
//           must block, because the consumer side arrives first, the producer starts at even.
// Progress: every acquired stage is committed, every awaited stage is released, and barriers count exactly the
//           arrivals of one lap.
// Pairs of blocks: a producer of a group of 2 commits in both blocks; a consumer of one releases in the leader,
//           where the producer waits. A release may also name its block: see released_in.
// Checked:  checks/role_pipeline.cpp and, in use, checks/pair_attention.cpp have the bounds and the planted bugs.
#include <cstdint>

#include "base/macros.hpp"
#include "exec/mbarrier.hpp"
#include "protocol/mbarrier_pipeline.hpp"
#include "protocol/mma_commit.hpp"

namespace baton {

/// The block whose barrier a consumer's release arrives at.
enum class released_in : std::uint8_t { own_block, leader };

/// How an end arrives: as many arrivals as the threads it speaks for, and where. `first` is the parity of a
/// producer's first acquire.
struct pipeline_arrivals {
  int count = 1;
  released_in where = released_in::own_block;
  parity first = parity::odd;
};

template <int stages, bool is_producer = true, int producer_sub_stages = 1, int consumer_sub_stages = 1,
          int cta_group = 1>
class role_pipeline {
  static_assert(cta_group == 1 || cta_group == 2, "one block or a pair");

 public:
  BATON_FN role_pipeline(mbarrier* producer, mbarrier* consumer, pipeline_arrivals arrivals = {})
      : end_{{producer, consumer}, {0, is_producer ? arrivals.first : parity::even}}, arrivals_{arrivals} {}

  /// Blocks until the stage is free (R2). False: gave up.
  template <int sub = 0, async_exec_context X>
  BATON_FN bool acquire(X& x, const wait_site& where) const requires is_producer {
    return end_.await_free(x, sub, where);
  }
  /// The stage is filled by what this warp did (R1); on to the next.
  template <int sub = 0, async_exec_context X>
  BATON_FN void commit(X& x) requires is_producer {
    x.sync_warp();
    x.elect([&] {
      if constexpr (cta_group == 1) x.mbarrier_arrive(producer_barrier(sub), arrivals_.count);
      if constexpr (cta_group == 2) arrive_for_commit(x, producer_barrier(sub), commit_to::both_blocks);
    });
    step();
  }
  /// The stage is filled when the products issued so far are done (R1). Does not step: sub-stages may follow.
  template <int sub = 0, async_exec_context X, commit_engine<X> Engine>
  BATON_FN void commit_mma(X& x, Engine& engine) const requires is_producer {
    engine.commit(x, producer_barrier(sub), cta_group == 2 ? commit_to::both_blocks : commit_to::own_block);
  }

  /// Blocks until the stage is filled (R1). False: gave up.
  template <int sub = 0, async_exec_context X>
  BATON_FN bool wait(X& x, const wait_site& where) const requires(!is_producer) {
    return end_.await_filled(x, sub, where);
  }
  /// The stage may be overwritten (R2); on to the next.
  template <int sub = 0, async_exec_context X>
  BATON_FN void release(X& x) requires(!is_producer) {
    release_no_step<sub>(x);
    step();
  }
  /// One of several sub-stages, or an arrival that no wait preceded.
  template <int sub = 0, async_exec_context X>
  BATON_FN void release_no_step(X& x) const requires(!is_producer) {
    const bool to_leader = cta_group == 2 || arrivals_.where == released_in::leader;
    const int block = to_leader ? leader_block : x.cluster_block();
    x.sync_warp();
    x.elect([&] { arrive_in_block(x, consumer_barrier(sub), block, arrivals_.count); });
  }

  BATON_FN void step() { end_.step(); }
  BATON_FN int index() const { return end_.index(); }
  BATON_FN parity next_parity() const { return end_.parity(); }
  BATON_FN mbarrier* producer_barrier(int sub = 0) const { return end_.filled(sub); }
  BATON_FN mbarrier* consumer_barrier(int sub = 0) const { return end_.free(sub); }

 private:
  pipeline_end<stages, separate_barriers<producer_sub_stages, consumer_sub_stages>, scope::cluster> end_;
  pipeline_arrivals arrivals_;
};

}  // namespace baton
