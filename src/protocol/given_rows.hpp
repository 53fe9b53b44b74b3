#pragma once
// Rows that every block of a cluster gives to all of them, time after time: each stores its own into the shared memory of whoever
// reads them, and each reads those of all blocks in its own. Places become free as those of team_rows do.
//
//   cell, in each block   completes after                                             means
//   filled                1 arrival of the block that expects all bytes, these bytes; all blocks' rows lie here
//                         of a block alone 1 arrival of each giver
//   taken                 1 arrival of each reader of each block                      places in all blocks may be written over
//
//   places of a block  event               becomes   by             barrier
//   free in all blocks acquire(n)          written   its givers     wait, their own block's `taken`, phase n - 1  (T2)
//   written            stores counted      filled    cluster        completes, the readers' `filled`, phase n     (T1)
//   filled             await(n)            read      all readers    wait, their block's `filled`, phase n         (T1)
//   read               release()           free      all readers    arrive at every block's `taken`, phase n      (T2)
//
// T1: what givers of any block stored on filled() happens before the return of every reader's await() of the same turn.
// T2: what readers of any block read before release() is over before what a giver stores after its acquire() of the next turn.
//     Over is enough for a place that is written again, so an arrival at block scope is (docs/decisions/0043).
// Start:    prepare(), and a barrier of the cluster. Turns are counted from 0; acquire(0) falls through.
// Alone:    stores are counted in clusters of several blocks only; elsewhere a GPU has no such instruction. Who is alone writes,
//           and tell()s: an arrival at the own block, in place of the bytes.
// Progress: all blocks have the same number of turns. In each one giver of each block expects, all give, and every reader
//           releases, if there is a further turn.
// Reach:    of waits for rows: cluster, as what is stored is counted at cluster scope.
// End:      who has awaited the last turn may leave, as nobody stores or arrives there any more: readers do not release that one.
//           A barrier of the cluster is for those who gave up.
// Checked:  checks/given_rows.cpp has the bounds and the planted bugs.
#include "exec/group_mma.hpp"
#include "protocol/team_rows.hpp"

namespace baton {

/// A warp's end of it, giver or reader or both.
template <class X>
class given_rows : team_rows<X> {
 public:
  /// One lane, of the block's two barriers: so many warps of each block give in a turn, and read.
  BATON_FN static void prepare(X& x, mbarrier* filled, mbarrier* taken, int givers, int readers) {
    x.mbarrier_init(filled, x.cluster_blocks() == 1 ? givers : 1);
    x.mbarrier_init(taken, readers * x.cluster_blocks());
  }

  BATON_FN given_rows(X& x, mbarrier* filled, mbarrier* taken)
      : team_rows<X>{x, filled, taken}, x_{x}, filled_{filled} {}

  /// Of a giver: places in all blocks may be written over (T2).
  using team_rows<X>::acquire;
  /// Of one giver of the block, behind acquire(): what all blocks store here this turn.
  BATON_FN void expect(int bytes) const {
    x_.elect([&] { x_.template mbarrier_arrive_expect<scope::block>(filled_, bytes); });
  }
  /// What stores into a block are counted on, over there (T1).
  BATON_FN mbarrier* filled() const { return filled_; }
  /// Of each giver of a block alone: all lanes have written (T1).
  BATON_FN void tell() const {
    x_.sync_warp();
    x_.elect([&] { x_.template mbarrier_arrive<scope::block>(filled_, 1); });
  }
  /// Of a reader: all blocks' rows are here (T1).
  using team_rows<X>::await;
  /// Of a reader, if there is a further turn: all lanes have read (T2).
  using team_rows<X>::release;

 private:
  X& x_;
  mbarrier* filled_;
};

}  // namespace baton
