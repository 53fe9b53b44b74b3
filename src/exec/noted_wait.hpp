#pragma once
// How warps wait where products are in flight. A loop of the language's own, or a wait that may end it, makes ptxas take what is
// live across it for different in each lane, and products in flight leave no registers for telling of a wait that is late, and
// none may end them: so such a wait is noted in the block, all goes on to the end, and what was made is not meant for anybody.
#include "exec/mbarrier.hpp"

namespace baton {

/// wait(barrier, parity), as protocols take it: true. `which` is one of an enumeration of a kernel's waits, whose 0 is none, and
/// `site_of_wait` says where each is. A wait that is late is noted in `late`, a word of shared memory that was 0.
template <scope Reach, auto site_of_wait, class X, class Which>
BATON_FN auto wait_or_note(X& x, Which which, std::uint32_t* late) {
  return [&x, which, late](mbarrier* b, parity p) {
    x.template mbarrier_wait_or_note<Reach>(b, p, static_cast<std::uint32_t>(which), site_of_wait(which),
                                            late);
    return true;
  };
}
/// Tells of the last wait that was late, if there was one.
template <class Which, auto site_of_wait, class X>
BATON_FN bool report_if_late(X& x, const std::uint32_t* late) {
  const auto which = static_cast<Which>(x.read(late));
  if (which != Which{}) x.report_late(site_of_wait(which));
  return which != Which{};
}

}  // namespace baton
