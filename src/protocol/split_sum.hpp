#pragma once
// Sums of which each block of a cluster, of two or more, has an addend. They come in shares, one for each of so many warps of
// a block. A share is added up by one block, its owner; the others write theirs into the owner's memory. Shares are dealt out in
// order, as many to each block, so the number of blocks divides that of shares.
//
//   cell, in each block   completes after                    means
//   base[share], owner    1 arrival of each other block      all other addends of the share lie in their places
//   base[share], others   1 arrival of the owner             this block's place at the owner may be written over
//
//   place of an addend    event                              becomes   by       barrier
//   free                  acquire()                          written   sender   waits, its own, phase n - 1         (S2)
//   written               tell()                             there     sender   arrives at the owner's, phase n     (S1)
//   there                 await_others()                     read      owner    waits, its own, phase n             (S1)
//   read                  release()                          free      owner    arrives at every sender's, phase n  (S2)
//
// S1: what senders wrote before tell() happens before the return of the owner's await_others() of the same sum.
// S2: what the owner read before release() happens before what a sender writes after its acquire() of the next sum.
// Start:    prepare(), and a barrier of the cluster. Senders begin at odd parity, so that their first acquire() falls through.
// Progress: a warp has the same shares in the same order as its fellows, and each awaited share is told of and released.
// Order:    owners read places in the order of blocks, their own addend among them, so that a sum's bits depend on the
//           number of blocks and on nothing else.
// End:      a barrier of the cluster: nobody leaves while others write here.
// Checked:  checks/split_sum.cpp has the bounds and the planted bugs.
#include "base/macros.hpp"
#include "base/math.hpp"
#include "exec/mbarrier.hpp"

namespace baton {

/// A warp's end of it: of share `share`, one of `shares`, in this block.
class split_sum {
 public:
  /// Places of addends in a block, at most: with one share for each block.
  static constexpr int most_places(int shares) { return shares - 1; }

  /// One lane, of each of the barriers.
  template <async_exec_context X>
  BATON_FN static void prepare(X& x, mbarrier* base, int share, int shares) {
    x.mbarrier_init(base + share,
                    owner_of(x, share, shares) == x.cluster_block() ? x.cluster_blocks() - 1 : 1);
  }

  template <async_exec_context X>
  BATON_FN split_sum(X& x, mbarrier* base, int share, int shares)
      : mine_{base + share},
        owner_{owner_of(x, share, shares)},
        first_place_{share % (shares / x.cluster_blocks()) * (x.cluster_blocks() - 1)},
        phase_{owner_ == x.cluster_block() ? parity::even : parity::odd} {}

  template <class X>
  BATON_FN bool owns(X& x) const {
    return owner_ == x.cluster_block();
  }
  BATON_FN int owner() const { return owner_; }
  /// Where the addend of another block lies in the owner's memory, one of most_places().
  BATON_FN int place_of(int block) const { return first_place_ + block - (block > owner_ ? 1 : 0); }

  /// Of a sender: blocks until its place is free (S2). False: gave up.
  template <async_exec_context X>
  BATON_FN bool acquire(X& x, const wait_site& where) {
    return wait(x, where);
  }
  /// Of a sender: all lanes have written (S1).
  template <async_exec_context X>
  BATON_FN void tell(X& x) const {
    x.sync_warp();
    x.elect([&] { x.mbarrier_arrive_at(mine_, owner_, 1); });
  }
  /// Of the owner: blocks until all others have told (S1). False: gave up.
  template <async_exec_context X>
  BATON_FN bool await_others(X& x, const wait_site& where) {
    return wait(x, where);
  }
  /// Of the owner: all lanes have read (S2).
  template <async_exec_context X>
  BATON_FN void release(X& x) const {
    x.sync_warp();
    x.elect([&] {
      for (int block = 0; block < x.cluster_blocks(); ++block)
        if (block != owner_) x.mbarrier_arrive_at(mine_, block, 1);
    });
  }

 private:
  template <class X>
  BATON_FN static int owner_of(X& x, int share, int shares) {
    return share / (shares / x.cluster_blocks());
  }
  template <async_exec_context X>
  BATON_FN bool wait(X& x, const wait_site& where) {
    const bool over = x.template mbarrier_wait<scope::cluster>(mine_, phase_, where);
    phase_ = !phase_;
    return over;
  }

  mbarrier* mine_;
  int owner_, first_place_;
  parity phase_;
};

}  // namespace baton
