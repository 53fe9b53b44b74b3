#pragma once
// What loaders and consumers wait for (exec/noted_wait.hpp).
#include "exec/noted_wait.hpp"
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

template <config C, scope Reach, class X>
BATON_FN auto wait_or_note(X& x, wait_of what) {
  return baton::wait_or_note<Reach, site_of>(x, what, block_plan<C>{}.late(x));
}
template <config C, class X>
BATON_FN bool is_late(X& x) {
  return x.read(block_plan<C>{}.late(x)) != 0;
}
template <config C, class X>
BATON_FN bool report_if_late(X& x) {
  return baton::report_if_late<wait_of, site_of>(x, block_plan<C>{}.late(x));
}

}  // namespace baton::attention_kernels
