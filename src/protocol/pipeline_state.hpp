#pragma once
// Where one end of a ring of stages stands: which stage, and the parity of the phase it uses next.
//
// After n steps from {0, p}: index is n mod stages, and the parity is p flipped n / stages times. An end that
// waits for a barrier's k-th phase starts at even; one that waits for the phase before the first starts at
// odd and falls through on its first lap.
#include "base/macros.hpp"
#include "exec/mbarrier.hpp"

namespace baton {

template <int stages>
struct pipeline_state {
  static_assert(stages >= 1);
  int index = 0;
  baton::parity parity = baton::parity::even;

  BATON_FN constexpr void step() {
    if (++index < stages) return;
    index = 0;
    parity = !parity;
  }
  /// `n` steps, up to `stages`.
  BATON_FN constexpr void skip(int n) {
    index += n;
    if (index < stages) return;
    index -= stages;
    parity = !parity;
  }
};

}  // namespace baton
