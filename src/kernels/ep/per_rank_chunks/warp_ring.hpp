#pragma once
// A warp's ring of pieces that the copy engine brings: the warp asks for some ahead, and uses them in the order in which it
// asked.
//
//   stage     event                            becomes   by
//   free      load()                           filling   the warp; all its lanes have left what was there
//   filling   bytes counted on the mbarrier    filled    copy engine
//   filled    await(), uses it, release()      free      the warp
//
// R1: a piece is here before it is used: the stage's mbarrier has counted its bytes. What the warp wrote there before happens
//     before the engine writes: a fence of the proxy.
// R2: what lanes and copies read of a stage happens before it is filled again: bulk_wait_read, sync_warp, then load().
// Start:    all stages free, mbarriers in their first phase.
// Progress: the warp asks for a piece before it awaits it, and has no more pieces on their way than stages.
#include "exec/mbarrier.hpp"
#include "kernels/ep/per_rank_chunks/cells.hpp"

namespace baton::ep::per_rank_chunks {

template <class X>
class warp_ring {
 public:
  BATON_FN warp_ring(std::byte* stages, int stage_bytes, mbarrier* landed, int num_stages)
      : stages_{stages}, landed_{landed}, stage_bytes_{stage_bytes}, num_{num_stages} {}

  BATON_FN bool has_room() const { return asked_ < num_; }

  /// A piece of the token at `from`.
  BATON_FN void load(X& x, const std::byte* from, const piece_span& span) {
    x.elect([&] {
      std::byte* to = stages_ + next_ * stage_bytes_;
      mbarrier* all = landed_ + next_;
      x.mbarrier_arrive_expect(all, span.bytes + span.rest_bytes);
      x.bulk_load(to, from + span.begin, span.is_one() ? span.bytes + span.rest_bytes : span.bytes, all);
      if (!span.is_one()) x.bulk_load(to + span.bytes, from + span.rest, span.rest_bytes, all);
    });
    if (++next_ == num_) next_ = 0;
    ++asked_;
  }

  /// The oldest piece, when it is here. Null: gave up.
  BATON_FN const std::byte* await(X& x, const wait_site& where) {
    if (!x.template mbarrier_wait<scope::block>(landed_ + oldest_, phase_, where)) return nullptr;
    return stages_ + oldest_ * stage_bytes_;
  }

  /// All lanes have left the oldest piece.
  BATON_FN void release(X& x) {
    x.sync_warp();
    --asked_;
    if (++oldest_ < num_) return;
    oldest_ = 0;
    phase_ = !phase_;
  }

  /// Before the warp returns early: nothing may land in memory that is no longer the block's.
  BATON_FN void drain(X& x, const wait_site& where) {
    for (; asked_ > 0 && await(x, where) != nullptr;) release(x);
  }

 private:
  std::byte* stages_;
  mbarrier* landed_;
  int stage_bytes_, num_;
  int next_ = 0, oldest_ = 0, asked_ = 0;
  parity phase_ = parity::even;
};

}  // namespace baton::ep::per_rank_chunks
