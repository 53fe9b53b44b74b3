#pragma once
// A ring of kv_stages stages that the copy engine fills and matrix products empty. Each stage is filled in
// qk_stages parts with a barrier each, so that products begin when the first part has landed.
//
//   cell                                            completes after                     means
//   base[stage * qk_stages + part]                  1 arrival that expects the bytes    the part has landed
//   base[total + stage * qk_stages + part]          1 arrival of a commit               it may be overwritten
//                       total = kv_stages * qk_stages
//
//   part      event                             becomes   by           barrier
//   free      producer_acquire()                filling   loader       waits, consumer side, phase n - 1   (K2)
//   filling   arrive_expect, bytes counted      filled    copy engine  completes, producer side, phase n   (K1)
//   filled    consumer_wait()                   in use    issuer       waits, producer side, phase n       (K1)
//   in use    products done, consumer_release() free      engine       arrives, consumer side, phase n     (K2)
//
// A view of the mbarrier pipeline (mbarrier_pipeline.hpp), whose P1 and P2 are K1 and K2 here.
// K1: the copies counted on a part's barrier happen before the return of the wait for it.
// K2: the products issued before a release (M1, mma_commit.hpp) happen before the next lap's copies.
// Start:    both ends at stage 0; the producer at odd parity, so its first lap falls through.
// Progress: the ends use parts in the same order, and every awaited part is released.
// Reach:    how far waits order the warps' plain accesses; arrivals are the engine's. scope::block is enough for slots that only
//           the copy engine writes and only products, or warps of the block, read: what engines did is known wherever it is
//           waited for; and for what warps of the block copy into a slot beside it, with arrivals of their own.
// Checked:  checks/staged_pipeline.cpp and, in use, checks/pair_attention.cpp have the bounds and the planted bugs.
#include "base/macros.hpp"
#include "exec/mbarrier.hpp"
#include "protocol/mbarrier_pipeline.hpp"
#include "protocol/mma_commit.hpp"

namespace baton {

template <int kv_stages, int qk_stages, int cta_group = 1, scope Reach = scope::cluster>
class staged_pipeline {
 public:
  static constexpr int total_stages = kv_stages * qk_stages;
  static constexpr int num_mbars = 2 * total_stages;

  BATON_FN explicit staged_pipeline(mbarrier* base) : base_{base} {}

  class producer_end;
  class consumer_end;
  BATON_FN producer_end producer() const { return producer_end{base_}; }
  BATON_FN consumer_end consumer() const { return consumer_end{base_}; }

 private:
  using barriers = adjacent_barriers<kv_stages, qk_stages>;

  /// What both ends share, under the documented names.
  class end : public pipeline_end<kv_stages, barriers, Reach> {
   public:
    BATON_FN end(mbarrier* base, parity first)
        : pipeline_end<kv_stages, barriers, Reach>{barriers{base}, {0, first}} {}
    BATON_FN mbarrier* producer_mbar(int part = 0) const { return this->filled(part); }
    BATON_FN mbarrier* consumer_mbar(int part = 0) const { return this->free(part); }
  };

  mbarrier* base_;
};

/// The loader's end. After producer_acquire it posts the bytes on producer_mbar and starts the copies; step()
/// follows the last part of a stage.
template <int kv_stages, int qk_stages, int cta_group, scope Reach>
class staged_pipeline<kv_stages, qk_stages, cta_group, Reach>::producer_end : public end {
 public:
  BATON_FN explicit producer_end(mbarrier* base) : end{base, parity::odd} {}

  /// Blocks until the part is free (K2). False: gave up.
  template <int part = 0, async_exec_context X>
  BATON_FN bool producer_acquire(X& x, const wait_site& where) const {
    return this->await_free(x, part, where);
  }
  /// The same by wait(barrier, parity), which says whether it is.
  template <int part = 0, class Wait>
  BATON_FN bool producer_acquire_by(Wait wait) const {
    return wait(this->consumer_mbar(part), this->parity());
  }
};

/// The end of whoever issues products on the stages.
template <int kv_stages, int qk_stages, int cta_group, scope Reach>
class staged_pipeline<kv_stages, qk_stages, cta_group, Reach>::consumer_end : public end {
 public:
  BATON_FN explicit consumer_end(mbarrier* base) : end{base, parity::even} {}

  /// Blocks until the part has landed (K1). False: gave up.
  template <int part = 0, async_exec_context X>
  BATON_FN bool consumer_wait(X& x, const wait_site& where) const {
    return this->await_filled(x, part, where);
  }
  /// The same by wait(barrier, parity), which says whether it has.
  template <int part = 0, class Wait>
  BATON_FN bool consumer_wait_by(Wait wait) const {
    return wait(this->producer_mbar(part), this->parity());
  }
  /// Whether it has landed (K1, if so), without waiting. For contexts with groups.
  template <int part = 0, async_exec_context X>
  BATON_FN bool consumer_sees(X& x) const {
    return this->sees_filled(x, part);
  }
  /// The part is free when the products issued so far are done (K2); on to the next stage after the last part.
  template <int part = qk_stages - 1, async_exec_context X, commit_engine<X> Engine>
  BATON_FN void consumer_release(X& x, Engine& engine) {
    commit(x, engine, this->consumer_mbar(part));
    if constexpr (part == qk_stages - 1) this->step();
  }
  /// Releases a part of stage `index` that the end has already passed.
  template <int part = qk_stages - 1, async_exec_context X, commit_engine<X> Engine>
  BATON_FN void consumer_release_at(X& x, Engine& engine, int index) const {
    commit(x, engine, this->free_at(index, part));
  }
  /// The same of the stage that the end passed `ago` steps ago: 1 is the last one.
  template <int part = qk_stages - 1, async_exec_context X, commit_engine<X> Engine>
  BATON_FN void consumer_release_passed(X& x, Engine& engine, int ago) const {
    const int index = this->index() - ago;
    consumer_release_at<part>(x, engine, index < 0 ? index + kv_stages : index);
  }

 private:
  template <async_exec_context X, commit_engine<X> Engine>
  BATON_FN void commit(X& x, Engine& engine, mbarrier* b) const {
    engine.commit(x, b, cta_group == 2 ? commit_to::both_blocks : commit_to::own_block);
  }
};

}  // namespace baton
