#pragma once
// Two blocks of a cluster tell each other something of the rows that they share: row values, and tiles of results.
//
// Row values: a warp and its counterpart in the other block have the same rows, and swap a value of each, again and again.
//
//   cell, in each block, of each warp   completes after                          means
//   filled[place], place = n mod 2      1 arrival that expects the bytes, bytes  values n of the counterpart lie in the place
//
//   place      event                  becomes   by            barrier
//   free       give() of the other    filled    counterpart   completes, phase n / 2     (E1)
//   filled     take()                 read      warp          waits, phase n / 2         (E1)
//   read       give() of the next     free      warp          none of its own            (E2)
//
// E1: what the counterpart gave as its n-th happens before the return of the n-th take().
// E2: values n + 2 are given behind the acquire() of a tile that the other block released behind its take() of values n: those
//     reads are over then (T2). Rows swapped without tiles between would lack that, as stores are counted for themselves only.
//
// Tiles: a group gives the other block's counterpart a tile of results, which that reads with its products.
//
//   cell, in each block, of each group   completes after                          means
//   filled                               1 arrival that expects the bytes, bytes  the counterpart's tile lies in the place
//   free                                 1 arrival of each warp of the reader     the place there may be written over
//
//   place      event                     becomes   by            barrier
//   free       acquire()                 written   giver         waits, its own `free`, phase n - 1          (T2)
//   written    stores counted            filled    cluster       completes, the reader's `filled`, phase n   (T1)
//   filled     await()                   read      reader        waits, its own `filled`, phase n            (T1)
//   read       release()                 free      reader        arrives at the giver's `free`, phase n      (T2)
//
// T1: what was stored before the phase completed happens before the return of await(), for products behind a proxy fence.
// T2: products that were awaited before release(), and reads before it, are over before the stores behind the acquire() of the
//     next tile. Over is enough for a place that is written again, so an arrival at block scope is (docs/decisions/0043).
// Start:    all barriers are initialised, with a fence of who did, the block has met, and then the cluster, without order (PTX:
//           fence.mbarrier_init, barrier.cluster.arrive.relaxed). Givers begin at odd parity: the first acquire() falls through.
// Progress: both blocks give and take as often, in the same order.
// Waits:    wait(barrier, parity) is the caller's: whether it is over. One that gave up may say so, if the rest is for nobody.
// Reach:    of waits: cluster, as what is stored is counted at cluster scope; by the letter of PTX block scope hears none of it.
// End:      who has taken the last values and the last tile may leave. A barrier of the cluster is for those who gave up.
// Checked:  checks/row_exchange.cpp has the bounds and the planted bugs; the order is that of kernels/attention/paired.hpp.
#include "base/macros.hpp"
#include "exec/group_mma.hpp"

namespace baton {

/// A warp's end of the swap of row values.
template <class X>
class row_swap {
  using row_values = typename X::row_values;
  using reached_block = typename X::reached_block;

 public:
  static constexpr int places = 2, bytes = group_warp_rows * static_cast<int>(sizeof(float));

  /// `values` and `filled` are the warp's of place 0; those of place 1 lie so many further on.
  BATON_FN row_swap(X& x, reached_block other, float* values, int values_apart, mbarrier* filled,
                    int filled_apart)
      : x_{x},
        other_{other},
        values_{values},
        filled_{filled},
        values_apart_{values_apart},
        filled_apart_{filled_apart} {}

  /// The n-th, from 0.
  BATON_FN void give(int n, const row_values& values) {
    x_.elect([&] { x_.template mbarrier_arrive_expect<scope::block>(barrier(n), bytes); });
    x_.each_row(values, [&](int row, float v) { x_.store_counted(other_, place(n) + row, v, barrier(n)); });
  }
  /// Blocks until the other's n-th are there (E1). False: gave up.
  template <class Wait>
  BATON_FN bool take(int n, row_values& values, Wait wait) {
    const bool there = wait(barrier(n), parity_of(static_cast<std::uint32_t>(n / places)));
    if (there) x_.read_rows(values, place(n));
    return there;
  }

 private:
  BATON_FN float* place(int n) const { return values_ + n % places * values_apart_; }
  BATON_FN mbarrier* barrier(int n) const { return filled_ + n % places * filled_apart_; }

  X& x_;
  reached_block other_;
  float* values_;
  mbarrier* filled_;
  int values_apart_, filled_apart_;
};

/// A group's end of giving and of reading tiles, of so many bytes.
template <class X>
class tile_swap {
 public:
  /// `expects`: this warp is the group's one that expects.
  BATON_FN tile_swap(X& x, int other_block, mbarrier* filled, mbarrier* free, int bytes, bool expects)
      : x_{x}, other_block_{other_block}, filled_{filled}, free_{free}, bytes_{bytes}, expects_{expects} {}

  /// Of the giver of the n-th, from 0: blocks until its place over there is free (T2), and expects the other's tile here. False:
  /// gave up.
  template <class Wait>
  BATON_FN bool acquire(int n, Wait wait) {
    const bool free = wait(free_, !parity_of(static_cast<std::uint32_t>(n)));
    if (expects_) x_.elect([&] { x_.template mbarrier_arrive_expect<scope::block>(filled_, bytes_); });
    return free;
  }
  /// What stores into the place are counted on, over there.
  BATON_FN mbarrier* filled() const { return filled_; }

  /// Of the reader: blocks until the other's n-th tile is there (T1). False: gave up.
  template <class Wait>
  BATON_FN bool await(int n, Wait wait) {
    const bool there = wait(filled_, parity_of(static_cast<std::uint32_t>(n)));
    if (there) x_.fence_proxy_async();
    return there;
  }
  /// Of each warp of the reader: products with it have been awaited (T2).
  BATON_FN void release() const {
    x_.sync_warp();
    x_.elect([&] { x_.template mbarrier_arrive_at<scope::block>(free_, other_block_, 1); });
  }

 private:
  X& x_;
  int other_block_;
  mbarrier *filled_, *free_;
  int bytes_;
  bool expects_;
};

}  // namespace baton
