#pragma once
// What products of a consumer take alike: the ring's slots in turn, and which keys count.
#include "kernels/decode_attention/column_softmax.hpp"
#include "kernels/decode_attention/items.hpp"
#include "kernels/decode_attention/waits.hpp"
#include "protocol/mma_commit.hpp"

namespace baton::decode_attention {

template <config C, class X>
class slot_reader {
 public:
  using scores = typename column_softmax<C, X>::scores;
  /// Of O: columns by rows.
  using sums = typename X::template group_accumulators<C.rows_of_group()>;

  BATON_FN slot_reader(X& x, const params& p, walk<C, X>& items, int number)
      : x_{x},
        p_{p},
        items_{items},
        group_{number},
        slots_{slot_pipeline<C>{block_plan<C>{}.slot_barriers(x)}.consumer()} {}

 protected:
  BATON_FN void await_slot(const typename slot_pipeline<C>::consumer_end& slots) {
    slots.consumer_wait_by(wait_or_note<scope::block, C>(x_, wait_of::slot));
  }
  /// Of the slot whose products were started `ago` slots ago: 1 is the last one.
  BATON_FN void release(int ago) {
    wgmma_engine<scope::block> awaited;
    slots_.consumer_release_passed(x_, awaited, ago);
  }
  /// Of the keys from piece `piece` on, those that some row of the sequence sees.
  BATON_FN attention_kernels::key_range seen_from(int piece) {
    const part w = items_.now();
    const int first_seen = w.diagonal - w.token - p_.left;  // of the sequence's first token
    return {first_seen - piece * piece_keys, w.keys - piece * piece_keys};
  }

  X& x_;
  const params& p_;
  walk<C, X>& items_;
  int group_;  // of those that make rows of their own
  typename slot_pipeline<C>::consumer_end slots_;
};

}  // namespace baton::decode_attention
