#pragma once
// How warps wait where products are in flight. A loop of the language's own, or a wait that may end it, makes ptxas take what is
// live across it for different in each lane, and products in flight leave no registers for telling of a wait that is late, and
// none may end them: so such a wait is noted in the block, all goes on to the end, and what was made is not meant for anybody.
#include "exec/mbarrier.hpp"

namespace baton {

/// wait(barrier, parity), as protocols take it: true. `which` of a kernel's waits, not 0, is noted in `late`, a word of shared
/// memory that was 0; who finds it in the end tells of it, by report_late.
template <scope Reach, class X>
BATON_FN auto wait_or_note(X& x, std::uint32_t which, const wait_site& where, std::uint32_t* late) {
  return [&x, which, where, late](mbarrier* b, parity p) {
    x.template mbarrier_wait_or_note<Reach>(b, p, which, where, late);
    return true;
  };
}

}  // namespace baton
