#pragma once
// The waits of a block, all of them watched (exec/mbarrier.hpp): products in flight leave no registers for telling of one that
// lasts too long, and nothing may end them. So consumers go on to their end, and what they made is stored nowhere.
#include "kernels/attention/items.hpp"

namespace baton::attention_kernels {

/// What a warp waits for.
enum class wait_of : std::uint32_t { none, q, slot, rows, place, tile, free_slot, landed };

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
    case wait_of::landed:
      return {.where = "attention.v_landed"};
    default:
      return {.where = "attention.slot_filled"};
  }
}

template <config C, class X>
class block_waits {
 public:
  BATON_FN explicit block_waits(X& x) : x_{x} {}

  BATON_FN watch_words* words() { return block_plan<C>{}.watched(x_); }
  /// wait(which, where, words) is one of those.
  template <class Wait>
  BATON_FN void await(wait_of which, Wait wait) {
    wait(static_cast<std::uint32_t>(which), site_of(which), words());
  }
  /// All lanes write the same: with one chosen ptxas works the block's place out anew, for this lane, and keeps that.
  BATON_FN void begin_step(int number) {
    x_.each_lane([&](int) { x_.write(&words()->step, static_cast<std::uint32_t>(number)); });
  }
  BATON_FN bool is_stopped() { return x_.read(&words()->noted) != 0; }
  /// In the end.
  BATON_FN void report() { x_.report_late(site_of(static_cast<wait_of>(x_.read(&words()->noted)))); }

 private:
  X& x_;
};

}  // namespace baton::attention_kernels
