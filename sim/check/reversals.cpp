// Which schedules the reduction still owes: races to be run the other way round.
#include <algorithm>
#include <bit>

#include "sim/check/search.hpp"

namespace baton::check {

/// Every warp that is about to store: could it have stored before an earlier access of the word?
void search::plan_reversals(execution& run, warp_set unfinished) {
  for (warp_set rest = unfinished; rest != 0; rest &= rest - 1) {
    const int warp = std::countr_zero(rest);
    if (!is_write(run.pending(warp).what)) continue;
    // Arrivals commute; what a wait can miss is a whole phase.
    const bool arrives = is_arrival(run.pending(warp).what);
    if (arrives && (!run.would_complete(warp) || limits_.fault == planted_fault::laps_not_reversed)) continue;
    const atomic_word& word = run.word(run.pending_word(warp));
    if (!arrives) reverse_writes(run, warp, word);
    if (limits_.fault == planted_fault::races_not_reversed) continue;
    for (int reader = 0; reader < run.num_warps(); ++reader) {
      if (reader != warp) reverse(run, warp, word.read_step[static_cast<std::size_t>(reader)]);
    }
  }
}

/// Of the earlier stores only the last: they are ordered among themselves. Not so the counts after it: a store could have
/// come before each of them, and each could have been the one that reaches the target.
void search::reverse_writes(execution& run, int warp, const atomic_word& word) {
  if (limits_.fault == planted_fault::writes_not_reversed) return;
  const message& settled = run.settled(warp);
  if (!settled.plain) reverse(run, warp, settled.born + 1);
  const bool counts = run.pending(warp).what == verb::count_to;
  if (counts && (!run.would_complete(warp) || limits_.fault == planted_fault::counts_not_reversed)) return;
  for (auto m = word.messages.rbegin(); m != word.messages.rend() && m->short_of_target; ++m)
    if (m->warp != warp) reverse(run, warp, m->born + 1);
}

/// Plans, in the state before `step` (counted from 1; 0: none), something that lets `warp` store first: one of
/// the warps that can begin what happened since then without depending on the step (a source set).
void search::reverse(execution& run, int warp, int step) {
  if (step == 0) return;
  node& before = path_[static_cast<std::size_t>(step - 1)];
  const bool arrives = is_arrival(run.pending(warp).what);
  const vector_clock causes = arrives ? run.completion_causes(warp) : run.causes(warp);
  if (causes.includes(before.warp, static_cast<tick>(step))) return;
  const warp_set beginners = beginners_without(run, warp, step);
  const warp_set covered = before.backtrack | (before.enabled & ~before.available);
  if ((beginners & covered) != 0) return;
  const warp_set possible = beginners & before.enabled;
  if (possible == 0)
    before.backtrack |= before.enabled;
  else
    before.backtrack |= (possible & only(warp)) != 0 ? only(warp) : possible & (~possible + 1);
}

/// Of the steps since `step` that do not depend on it, and the store that `warp` is about to make: the warps
/// whose first one depends on none of the others.
warp_set search::beginners_without(execution& run, int warp, int step) const {
  const int without = path_[static_cast<std::size_t>(step - 1)].warp;
  warp_set began = 0, beginners = 0;
  tick_array first{};
  const auto begin = [&](int w, tick at, const vector_clock& causes) {
    if ((began & only(w)) != 0) return;
    bool alone = true;
    for (warp_set rest = began; rest != 0; rest &= rest - 1) {
      const int other = std::countr_zero(rest);
      alone = alone && !causes.includes(other, first[static_cast<std::size_t>(other)]);
    }
    began |= only(w);
    first[static_cast<std::size_t>(w)] = at;
    if (alone) beginners |= only(w);
  };
  for (std::size_t k = static_cast<std::size_t>(step); k < path_.size(); ++k) {
    const vector_clock& causes = causes_[k];
    if (!causes.includes(without, static_cast<tick>(step)))
      begin(path_[k].warp, static_cast<tick>(k + 1), causes);
  }
  vector_clock next = is_arrival(run.pending(warp).what) ? run.completion_causes(warp) : run.causes(warp);
  next.join(run.causes_of_write(warp));
  begin(warp, static_cast<tick>(path_.size() + 1), next);
  return beginners;
}

}  // namespace baton::check
