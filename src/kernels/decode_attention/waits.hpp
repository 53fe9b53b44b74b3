#pragma once
// What loaders and consumers wait for (exec/noted_wait.hpp).
#include "exec/noted_wait.hpp"
#include "kernels/decode_attention/config.hpp"

namespace baton::decode_attention {

enum class wait_of : std::uint32_t { none, q, slot, slot_free, rows_there, rows_taken };

constexpr wait_site site_of(wait_of which) {
  switch (which) {
    case wait_of::q:
      return {.where = "decode.q_filled"};
    case wait_of::slot_free:
      return {.where = "decode.slot_free"};
    case wait_of::rows_there:
      return {.where = "decode.rows_there"};
    case wait_of::rows_taken:
      return {.where = "decode.rows_taken"};
    default:
      return {.where = "decode.slot_filled"};
  }
}

template <scope Reach, config C, class X>
BATON_FN auto wait_or_note(X& x, wait_of what) {
  return baton::wait_or_note<Reach, site_of>(x, what, block_plan<C>{}.late(x));
}
template <config C, class X>
BATON_FN bool report_if_late(X& x) {
  return baton::report_if_late<wait_of, site_of>(x, block_plan<C>{}.late(x));
}

}  // namespace baton::decode_attention
