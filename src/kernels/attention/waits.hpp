#pragma once
// How loaders and consumers wait. A loop of the language's own, or a wait that may end it, makes ptxas take what is live across
// it for different in each lane, and products in flight leave no registers for telling of a wait that is late, and none may end
// them: so such a wait is noted in the block, all goes on to the end, and what was made is not meant for anybody.
#include "kernels/attention/config.hpp"

namespace baton::attention_kernels {

enum class wait_of : std::uint32_t { none, q, slot, rows, place, tile, free_slot };

BATON_FN wait_site site_of(wait_of which) {
  switch (which) {
    case wait_of::q:
      return {.where = "attention.q_filled"};
    case wait_of::rows:
      return {.where = "attention.rows_given"};
    case wait_of::place:
      return {.where = "attention.p_free"};
    case wait_of::tile:
      return {.where = "attention.p_given"};
    case wait_of::free_slot:
      return {.where = "attention.slot_free"};
    default:
      return {.where = "attention.slot_filled"};
  }
}

/// wait(barrier, parity), as protocols take it.
template <config C, scope Reach, class X>
BATON_FN auto wait_or_note(X& x, wait_of what) {
  return [&x, what](mbarrier* b, parity p) {
    x.template mbarrier_wait_or_note<Reach>(b, p, static_cast<std::uint32_t>(what), site_of(what),
                                            block_plan<C>{}.late(x));
    return true;
  };
}
/// The last wait of the block that was late.
template <config C, class X>
BATON_FN wait_of late_wait(X& x) {
  return static_cast<wait_of>(x.read(block_plan<C>{}.late(x)));
}
/// Tells of it, if there was one.
template <config C, class X>
BATON_FN bool report_if_late(X& x) {
  const wait_of which = late_wait<C>(x);
  if (which != wait_of::none) x.report_late(site_of(which));
  return which != wait_of::none;
}

}  // namespace baton::attention_kernels
