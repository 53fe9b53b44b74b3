#pragma once
// Pair attention on tokens, right or with a planted bug, over any back end. What the bugs are and what each
// must be killed by is said once, here.
#include <ostream>
#include <vector>

#include "checks/pair_attention_tokens.hpp"
#include "checks/tampered_context.hpp"
#include "protocol/pair_attention/pair_attention.hpp"

namespace baton::checks {

enum class attention_bug {
  none,
  no_dummy_arrival,          // correction does not arrive for tile 0
  output_ready_too_early,    // PO_lo counts the softmax only
  arrives_in_own_block,      // instead of the leader
  first_slot_acquire_waits,  // the loader starts at even parity
  first_output_acquire_falls_through,
  slot_not_acquired,            // the loader overwrites slots without waiting
  slot_released_by_the_issuer,  // before its product is done
  half_of_the_bytes,            // the leader expects its own bytes only
  slot_read_unfilled,
  scores_not_awaited,
  scores_released_unread,
  live_scores_overwritten,  // the issuer does not wait for the S buffer
  weights_not_awaited,
  weights_overwritten,  // softmax does not wait for the products of the tile before
  factor_not_awaited,
  factor_overwritten,
  output_multiplied_early,
  output_stored_early,
  no_proxy_fence,  // between the staging's stores and the copy engine
};

struct attention_mutant {
  attention_bug bug;
  const char* name;
  const char* breaks;  // the edge, as protocol/pair_attention/pair_attention.hpp names it
  tampering how = {};
  int from_look_ahead = 0;  // where it is a bug at all
  int to_look_ahead = 2;
  int from_tiles = 1;  // how many tiles it takes to show
};
inline std::ostream& operator<<(std::ostream& out, const attention_mutant& m) {
  return out << m.name;
}

/// Everything planted into a shape.
template <class Shape>
std::vector<attention_mutant> attention_mutants() {
  using bars = typename Shape::mbars;
  using bug = attention_bug;
  const auto with = [](auto member, auto value) {
    tampering t;
    t.*member = value;
    return t;
  };
  const auto skip = [&](site at) { return with(&tampering::skips, at); };
  tampering dummy = with(&tampering::drops_at, bars::po_lo_offset);
  dummy.drops_from_warp = Shape::warps_per_role;
  tampering early = with(&tampering::recounts, bars::po_lo_offset);
  early.recount = 2 * bars::role_arrivals;
  tampering first_slot = with(&tampering::flips, attention_sites::slot_free());
  tampering first_output = with(&tampering::flips, attention_sites::p_ready());
  first_output.only_tile = 0;
  return {
      {bug::no_dummy_arrival, "no dummy arrival", "A6", dummy},
      {bug::output_ready_too_early, "output ready too early", "A6", early},
      {bug::arrives_in_own_block, "arrives in own block", "Progress", with(&tampering::arrives_here, true)},
      {bug::first_slot_acquire_waits, "first slot acquire waits", "Start, K2", first_slot},
      {bug::first_output_acquire_falls_through, "first output acquire falls through", "A3", first_output},
      {bug::slot_not_acquired, "slot not acquired", "K2", skip(attention_sites::slot_free()), 0, 2, 3},
      {bug::slot_released_by_the_issuer, "slot released by the issuer", "K2", {}, 0, 2, 3},
      {bug::half_of_the_bytes, "half of the bytes", "K1", with(&tampering::expects_divided_by, 2)},
      {bug::slot_read_unfilled, "slot read unfilled", "K1", skip(attention_sites::slot_filled())},
      {bug::scores_not_awaited, "scores not awaited", "A1", skip(attention_sites::s_ready())},
      {bug::scores_released_unread, "scores released unread", "A2", {}, 2, 2, 3},
      {bug::live_scores_overwritten, "live scores overwritten", "A2", skip(attention_sites::s_free()), 2, 2,
       3},
      {bug::weights_not_awaited, "weights not awaited", "A3", skip(attention_sites::p_ready())},
      {bug::weights_overwritten, "weights overwritten", "A3", skip(attention_sites::p_free()), 1, 2, 2},
      {bug::factor_not_awaited, "factor not awaited", "A4", skip(attention_sites::factor_ready()), 0, 2, 2},
      {bug::factor_overwritten, "factor overwritten", "A7", skip(attention_sites::factor_free()), 1, 2, 3},
      {bug::output_multiplied_early, "output multiplied early", "A5", skip(attention_sites::o_ready()), 1, 2,
       2},
      {bug::output_stored_early, "output stored early", "A5", skip(attention_sites::o_final())},
      {bug::no_proxy_fence, "no proxy fence", "A5", with(&tampering::no_proxy_fence, true)},
  };
}
/// A wait that orders nothing with this look-ahead or less: without it nothing may go wrong.
inline std::vector<attention_mutant> redundant_waits(int look_ahead) {
  const auto skip = [](site at) {
    tampering t;
    t.skips = at;
    return t;
  };
  std::vector<attention_mutant> waits;
  if (look_ahead < 2)
    waits.push_back({attention_bug::none, "S buffer free", "", skip(attention_sites::s_free())});
  if (look_ahead < 1) {
    waits.push_back({attention_bug::none, "factor's place free", "", skip(attention_sites::factor_free())});
    waits.push_back({attention_bug::none, "O grown", "", skip(attention_sites::o_ready())});
  }
  return waits;
}
template <class Shape>
bool is_a_bug(const attention_mutant& m, int tiles) {
  return Shape::look_ahead >= m.from_look_ahead && Shape::look_ahead <= m.to_look_ahead &&
         tiles >= m.from_tiles;
}

/// Tokens whose order of steps is wrong where the bug says so.
template <class Shape, class X, class Judge>
class tampered_tokens : public pair_attention_tokens<Shape, X, Judge> {
 public:
  using base = pair_attention_tokens<Shape, X, Judge>;
  tampered_tokens(X& x, const typename base::cells& c, int tiles, Judge& judge, attention_bug bug)
      : base{x, c, tiles, judge}, bug_{bug} {}

  void read_scores(X& x, int tile, int buffer) {
    buffer_ = buffer;
    if (bug_ != attention_bug::scores_released_unread) base::read_scores(x, tile, buffer);
  }
  void choose_factor(X& x, int tile) {
    if (bug_ == attention_bug::scores_released_unread) base::read_scores(x, tile, buffer_);
    base::choose_factor(x, tile);
  }
  void issue(X& x, const mma_step& step) {
    late_ = step;
    is_late_ = bug_ == attention_bug::slot_released_by_the_issuer;
    if (!is_late_) base::issue(x, step);
  }
  /// The late product goes with the commit after the one that releases its slot.
  void commit(X& x, mbarrier* b, commit_to to) {
    base::commit(x, b, to);
    if (is_late_) base::issue(x, late_);
    is_late_ = false;
  }

 private:
  attention_bug bug_;
  int buffer_ = 0;
  mma_step late_{};
  bool is_late_ = false;
};

/// One warp's whole run.
template <class Shape, class Base, class Judge>
void run_pair_attention_on_tokens(const Base& base, const pair_attention_cells<Shape>& cells, int tiles,
                                  const attention_mutant& m, Judge& judge) {
  tampered<Base> x{base, m.how};
  tampered_tokens<Shape, tampered<Base>, Judge> work{x, cells, tiles, judge, m.bug};
  const typename Shape::mbars bars{pair_attention_cells<Shape>::barriers(x.shared())};
  run_pair_attention<Shape>(x, bars, tiles, work);
}

inline const attention_mutant no_bug{attention_bug::none, "none", ""};

}  // namespace baton::checks
