#pragma once
// Rows that every block of a cluster shows to all of them, time after time: each writes its own into its own shared memory, and
// each reads all blocks' there.
//
//   cell, in each block   completes after                                  means
//   staged                1 arrival of each writer of each block           all blocks' rows are there
//   taken                 1 arrival of each reader of each block           this block's rows may be written over
//
//   rows of a block   event               becomes   by            barrier
//   free              acquire(n)          written   its writers   wait, its own, phase n - 1              (T2)
//   written           tell()              there     its writers   arrive at every block's, phase n        (T1)
//   there             await(n)            read      all readers   wait, their block's, phase n            (T1)
//   read              release()           free      all readers   arrive at every block's, phase n        (T2)
//
// T1: what writers of any block wrote before tell() happens before the return of every reader's await() of the same turn.
// T2: what readers of any block read before release() is over before what a writer writes after its acquire() of the next turn.
//     Over is enough for a place that is written again, so an arrival at block scope is (docs/decisions/0043).
// Start:    prepare(), and a barrier of the cluster. Turns are counted from 0; acquire(0) falls through.
// Progress: all blocks have the same number of turns, and in each every writer tells and every reader releases.
// End:      acquire() of a turn more: all have read here. A barrier of the cluster is for those who gave up.
// Checked:  checks/team_rows.cpp has the bounds and the planted bugs.
#include "base/macros.hpp"
#include "exec/mbarrier.hpp"

namespace baton {

/// A warp's end of it, writer or reader or both.
template <async_exec_context X>
class team_rows {
 public:
  /// One lane, of the block's two barriers: so many warps of each block write, and read.
  BATON_FN static void prepare(X& x, mbarrier* staged, mbarrier* taken, int writers, int readers) {
    x.mbarrier_init(staged, writers * x.cluster_blocks());
    x.mbarrier_init(taken, readers * x.cluster_blocks());
  }

  BATON_FN team_rows(X& x, mbarrier* staged, mbarrier* taken) : x_{x}, staged_{staged}, taken_{taken} {}

  /// Of a writer: the block's rows may be written over (T2), says wait(barrier, parity).
  template <class Wait>
  BATON_FN void acquire(int turn, Wait wait) const {
    wait(taken_, !parity_of(static_cast<std::uint32_t>(turn)));
  }
  /// Of a writer: all lanes have written (T1).
  BATON_FN void tell() const { arrive<scope::cluster>(staged_); }
  /// Of a reader: all blocks' rows are there (T1), says wait(barrier, parity).
  template <class Wait>
  BATON_FN void await(int turn, Wait wait) const {
    wait(staged_, parity_of(static_cast<std::uint32_t>(turn)));
  }
  /// Of a reader: all lanes have read (T2).
  BATON_FN void release() const { arrive<scope::block>(taken_); }

 private:
  template <scope Reach>
  BATON_FN void arrive(mbarrier* b) const {
    x_.sync_warp();
    x_.each_lane([&](int block) {
      if (block < x_.cluster_blocks()) x_.template mbarrier_arrive_at<Reach>(b, block, 1);
    });
  }

  X& x_;
  mbarrier *staged_, *taken_;
};

}  // namespace baton
