// The half of the memory model that makes order: atomic accesses, fences and barriers.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "sim/check/memory.hpp"

namespace baton::check {
namespace {

std::size_t index(scope s) {
  return static_cast<std::size_t>(s);
}

}  // namespace

bool memory::hear_each_other(int a, scope reach_a, int b, scope reach_b) const {
  if (fault_ == planted_fault::scopes_ignored) return true;
  const position &at = warps_[static_cast<std::size_t>(a)], &other = warps_[static_cast<std::size_t>(b)];
  return reaches(at, reach_a, other) && reaches(other, reach_b, at);
}

bool memory::strong(int warp, scope reach, const message& m) const {
  if (m.phase >= 0) return true;  // each of its releases is judged by itself
  return !m.plain && m.warp >= 0 && hear_each_other(warp, reach, m.warp, m.reach);
}

void memory::check_scopes(int warp, const operation& op, const atomic_word& w) {
  if (w.only_system_scope && op.reach == scope::system) return;
  for (int q = 0; q < static_cast<int>(warps_.size()); ++q) {
    for (const scope s : every_scope) {
      if (q == warp || hear_each_other(warp, op.reach, q, s)) continue;
      const auto at = static_cast<std::size_t>(q);
      const bool after_write = unordered(warp, q, w.writes[index(s)][at]);
      const bool after_read = is_write(op.what) && unordered(warp, q, w.reads[index(s)][at]);
      if (!after_write && !after_read) continue;
      found_.add(
          verdict::scope_race,
          fmt::format("{}: {} of {} at {} scope, unordered with {}'s {} at {} scope: they are not in each "
                      "other's scope",
                      name(warps_[static_cast<std::size_t>(warp)]), name(op.what), names_.of(w.address),
                      name(op.reach), name(warps_[at]), after_write ? "store" : "load", name(s)));
    }
  }
}

/// Out of scope it is for engines that the warp asks alone: what they do comes behind what the wait has seen.
void memory::take_end(warp_knowledge& me, const release_mark& mark, bool in_scope) const {
  if (!in_scope && fault_ == planted_fault::ends_told_by_scope) return;
  finished_elsewhere& known =
      in_scope || fault_ == planted_fault::ends_told_to_all ? me.elsewhere : me.elsewhere_for_engines;
  known.ended.join(mark.covers);
  vector_clock of_others = mark.covers;
  of_others.set(mark.warp, 0);
  if (mark.how == known_as::over) known.replaceable.join(of_others);
}

/// Learns what the message's releases cover, as far as both sides can hear each other.
void memory::take(int warp, const operation& op, const message& m) {
  if (!strong(warp, op.reach, m) || fault_ == planted_fault::acquire_forgets) return;
  warp_knowledge& me = knowledge(warp);
  const bool acquire = acquires(op.ordering) || fault_ == planted_fault::relaxed_acquires;
  for (std::uint32_t i = 0; i < m.num_marks; ++i) {
    const release_mark& mark = marks_[m.first_mark + i];
    if (mark.warp == warp) continue;
    const bool hear = hear_each_other(warp, op.reach, mark.warp, mark.reach);
    if (mark.how != known_as::done) {
      take_end(me, mark, hear);
      continue;
    }
    if (!hear) continue;
    if (acquire) {
      learn(warp, mark.covers);
      continue;
    }
    const release_mark kept{mark.warp, narrower(mark.reach, op.reach), mark.covers};
    const auto same = std::find_if(me.unfenced.begin(), me.unfenced.end(), [&](const release_mark& u) {
      return u.warp == kept.warp && u.reach == kept.reach;
    });
    if (same == me.unfenced.end())
      me.unfenced.push_back(kept);
    else
      same->covers.join(kept.covers);
  }
}

/// A phase that was awaited has completed: what the warp did up to its own arrivals there is over.
void memory::end_own_arrivals(int warp, const message& m) {
  const tick arrived = phases_[static_cast<std::size_t>(m.phase)][static_cast<std::size_t>(warp)];
  vector_clock& ended = knowledge(warp).elsewhere.ended;
  if (fault_ != planted_fault::own_arrivals_unheard && !ended.includes(warp, arrived))
    ended.set(warp, arrived);
}

void memory::see(int warp, const operation& op, atomic_word& w, int message_index) {
  message& m = w.messages[static_cast<std::size_t>(message_index)];
  if (m.garbage) read_garbage(warp, w.address);
  tick& first = m.first_reads[static_cast<std::size_t>(warp)];
  if (first == 0) first = knowledge(warp).now[warp];
  knowledge(warp).causes.join(m.causes);
  if (m.phase >= 0) end_own_arrivals(warp, m);
  if (!w.is_line()) return take(warp, op, m);
  if (fault_ != planted_fault::lines_order) return;
  operation acquiring = op;
  acquiring.ordering = order::acquire;
  take(warp, acquiring, m);
}

std::uint64_t memory::load(int warp, const operation& op, int word, int message_index, int step) {
  atomic_word& w = words_[static_cast<std::size_t>(word)];
  check_scopes(warp, op, w);
  check_plain_neighbours(warp, false, w);
  w.only_system_scope = w.only_system_scope && op.reach == scope::system;
  const auto me = static_cast<std::size_t>(warp);
  w.reads[index(op.reach)][me] = knowledge(warp).now[warp];
  w.read_step[me] = static_cast<tick>(step + 1);
  check_half_count(warp, w, w.messages[static_cast<std::size_t>(message_index)]);
  see(warp, op, w, message_index);
  return w.messages[static_cast<std::size_t>(message_index)].value;
}

void memory::looked(int warp, int word, int step) {
  words_[static_cast<std::size_t>(word)].read_step[static_cast<std::size_t>(warp)] =
      static_cast<tick>(step + 1);
}

void memory::add_mark(message& m, const release_mark& mark) {
  for (std::uint32_t i = 0; i < m.num_marks; ++i) {
    release_mark& existing = marks_[m.first_mark + i];
    if (existing.warp != mark.warp || existing.reach != mark.reach || existing.how != mark.how) continue;
    existing.covers.join(mark.covers);
    return;
  }
  marks_.push_back(mark);
  ++m.num_marks;
}

/// Hardware may put one of two unordered stores before the other in every schedule, and which one may differ from word
/// to word (2+2W, S). A read-modify-write is where the value that it read says.
void memory::check_order_of_stores(int warp, const operation& op, const atomic_word& w) {
  if (is_rmw(op.what) || found_.any()) return;
  const message& last = w.messages.back();
  const bool counted = w.open_phase < 0 || knowledge(warp).now.includes_all(
                                               open_phases_[static_cast<std::size_t>(w.open_phase)].arrived);
  if (counted && (last.warp < 0 || last.warp == warp || is_known(warp, last))) return;
  if (fault_ == planted_fault::stores_in_any_order) return;
  found_.add(verdict::unordered_stores,
             fmt::format("{} stores to {} without order after {}'s store: which of the two lasts is open",
                         name(warps_[static_cast<std::size_t>(warp)]), names_.of(w.address),
                         name(warps_[static_cast<std::size_t>(last.warp)])));
}

/// The releases of a store: its own, those of fences before it, those of its warp's stores to the word before, and, if
/// it is a read-modify-write, those of the message it replaces.
void memory::mark_releases(int warp, const operation& op, const atomic_word& w, message& m) {
  if (w.is_line() && fault_ != planted_fault::lines_order) return;
  const message* replaced = is_rmw(op.what) ? &w.messages.back() : nullptr;
  m.first_mark = static_cast<std::uint32_t>(marks_.size());
  if (replaced != nullptr && strong(warp, op.reach, *replaced) &&
      fault_ != planted_fault::rmw_breaks_release) {
    for (std::uint32_t i = 0; i < replaced->num_marks; ++i) {
      const release_mark copy = marks_[replaced->first_mark + i];
      add_mark(m, copy);
    }
  }
  const auto own = std::find_if(w.messages.rbegin(), w.messages.rend(), [&](const message& earlier) {
    return earlier.warp == warp && !earlier.plain;
  });
  for (std::uint32_t i = 0; own != w.messages.rend() && i < own->num_marks; ++i) {
    const release_mark earlier = marks_[own->first_mark + i];
    if (earlier.warp == warp) add_mark(m, {warp, narrower(earlier.reach, op.reach), earlier.covers});
  }
  const warp_knowledge& me = knowledge(warp);
  for (const scope s : every_scope) {
    if (me.has_fence[index(s)]) add_mark(m, {warp, narrower(s, op.reach), me.fenced[index(s)]});
  }
  if (releases(op.ordering) || fault_ == planted_fault::relaxed_releases || w.is_line())
    add_mark(m, {warp, op.reach, me.now});
}

std::uint64_t memory::store(int warp, const operation& op, int word, int step) {
  atomic_word& w = words_[static_cast<std::size_t>(word)];
  check_scopes(warp, op, w);
  check_plain_neighbours(warp, true, w);
  w.only_system_scope = w.only_system_scope && op.reach == scope::system;
  check_order_of_stores(warp, op, w);
  const auto me = static_cast<std::size_t>(warp);
  const std::uint64_t before = w.messages.back().value;
  warp_knowledge& k = knowledge(warp);
  message m;
  if (op.what == verb::count_to) {
    count(warp, op, w, m, step);
  } else {
    k.causes.join(causes_of_write(op, word));  // stores to one word keep their order
    if (is_rmw(op.what)) {
      check_half_count(warp, w, w.messages.back());
      see(warp, op, w, static_cast<int>(w.messages.size()) - 1);
    }
    if (w.open_phase >= 0) open_phases_[static_cast<std::size_t>(w.open_phase)] = {};
  }
  m.warp = warp;
  m.reach = op.reach;
  m.when = k.now[warp];
  m.born = step;
  m.causes = k.causes;
  m.causes.set(warp, static_cast<tick>(step + 1));
  switch (op.what) {
    case verb::fetch_add:
    case verb::count_to:
      m.value = before + op.value;
      break;
    case verb::fetch_min:
      m.value = std::min(before, op.value);
      break;
    case verb::fetch_or:
      m.value = before | op.value;
      break;
    default:
      m.value = op.value;
      break;
  }
  if (w.bytes == 4) m.value &= 0xffffffffu;
  mark_releases(warp, op, w, m);
  w.writes[index(op.reach)][me] = m.when;
  w.write_step[me] = static_cast<tick>(step + 1);
  append(w, m);
  return op.what == verb::count_to ? (m.short_of_target ? 0 : 1) : before;
}

/// A count short of its target learns what was there before the round and follows none of it; the last one follows and hears
/// all. Who counts past the target has learnt that it came too late, and what it may know then is not modelled.
void memory::count(int warp, const operation& op, atomic_word& w, message& m, int step) {
  open_phase& round = open_phase_of(w);
  warp_knowledge& k = knowledge(warp);
  const message& before = settled(static_cast<int>(&w - words_.data()));
  const std::uint64_t now = w.messages.back().value + op.value;
  k.causes.join(before.causes);
  m.short_of_target = now != op.target;
  if (now > op.target && !found_.any())
    found_.add(verdict::counter_misuse,
               fmt::format("{} counts to {} of {} in {}", name(warps_[static_cast<std::size_t>(warp)]), now,
                           op.target, names_.of(w.address)));
  for (int q = 0; q < static_cast<int>(warps_.size()); ++q)
    if (unordered(warp, q, round.before[static_cast<std::size_t>(q)])) half_counted(q, w);
  if (m.short_of_target && fault_ != planted_fault::counts_hear_each_other) {
    see(warp, op, w, static_cast<int>(&before - w.messages.data()));
    round.arrived[static_cast<std::size_t>(warp)] = k.now[warp];
    round.causes.join(k.causes);
    round.causes.set(warp, static_cast<tick>(step + 1));
    return;
  }
  k.causes.join(round.causes);
  see(warp, op, w, static_cast<int>(w.messages.size()) - 1);
  round = {};
}

void memory::half_counted(int reader, const atomic_word& w) {
  if (found_.any()) return;
  found_.add(verdict::counter_misuse,
             fmt::format("{} looks at {} while others count: what it sees depends on their order",
                         name(warps_[static_cast<std::size_t>(reader)]), names_.of(w.address)));
}

/// A count under way may be read only by who knows of all counts so far, and before all that follow: then their order does
/// not matter.
void memory::check_half_count(int warp, const atomic_word& w, const message& m) {
  if (!m.short_of_target) return;
  open_phase& round = open_phases_[static_cast<std::size_t>(w.open_phase)];
  const bool is_last = &m == &w.messages.back();
  if (!is_last || !knowledge(warp).now.includes_all(round.arrived)) return half_counted(warp, w);
  round.before[static_cast<std::size_t>(warp)] = knowledge(warp).now[warp];
}

void memory::advance(int warp, bool after_release) {
  if (knowledge(warp).now[warp] == std::numeric_limits<tick>::max()) {
    return found_.add(
        verdict::too_long,
        fmt::format("{} has more than {} steps, fences and barriers: check a smaller program",
                    name(warps_[static_cast<std::size_t>(warp)]), std::numeric_limits<tick>::max() - 1));
  }
  if (after_release)
    lanes_[static_cast<std::size_t>(warp)].release(knowledge(warp).now[warp], knowledge(warp).lane);
  if (after_release && fault_ == planted_fault::clock_stands_still) return;
  knowledge(warp).now.advance(warp);
}

void memory::fence(int warp, order ordering, scope reach) {
  if (fault_ == planted_fault::fences_ignored) return;
  warp_knowledge& me = knowledge(warp);
  if (acquires(ordering)) {
    for (const release_mark& u : me.unfenced) {
      if (hear_each_other(warp, narrower(u.reach, reach), u.warp, u.reach)) learn(warp, u.covers);
    }
  }
  if (releases(ordering)) {
    me.fenced[index(reach)] = me.now;
    me.has_fence[index(reach)] = true;
  }
  advance(warp, releases(ordering));
}

void memory::barrier(std::span<const int> warps) {
  if (fault_ == planted_fault::barrier_joins_nothing) return;
  vector_clock now, causes;
  for (const int w : warps) {
    now.join(knowledge(w).now);
    causes.join(knowledge(w).causes);
  }
  for (const int w : warps) {
    knowledge(w).now = now;
    knowledge(w).has_learnt = false;
    lanes_[static_cast<std::size_t>(w)].sync(now[w]);
    knowledge(w).causes = causes;
    advance(w, true);
  }
}

/// Up to when the warp's own inits of mbarriers lie behind a fence of its own for them.
tick memory::own_inits_fenced(int warp) const {
  if (fault_ == planted_fault::meetings_tell_inits)
    return knowledge_[static_cast<std::size_t>(warp)].now[warp];
  tick last = 0;
  for (const proxy_fence& f : proxy_fences_)
    if (f.warp == warp && f.what == fenced::inits) last = std::max(last, f.covers[warp]);
  return last;
}

void memory::meeting(std::span<const int> warps) {
  if (fault_ == planted_fault::meetings_tell_all) return barrier(warps);
  vector_clock causes, inits;
  for (const int w : warps) {
    causes.join(knowledge(w).causes);
    const tick fenced_up_to = own_inits_fenced(w);
    if (!inits.includes(w, fenced_up_to)) inits.set(w, fenced_up_to);
  }
  for (const int w : warps) {
    knowledge(w).causes = causes;
    knowledge(w).met_inits.join(inits);
    advance(w, true);
  }
}

void memory::end_kernel(int warp) {
  warp_knowledge& me = knowledge(warp);
  me.ended = me.now;
  me.has_learnt = false;
  lanes_[static_cast<std::size_t>(warp)].sync(me.now[warp]);
  advance(warp, true);
}

void memory::await_dependencies(std::span<const int> warps) {
  vector_clock ended, causes;
  for (const int w : warps) {
    ended.join(knowledge(w).ended);
    causes.join(knowledge(w).causes);
  }
  for (const int w : warps) {
    learn(w, ended);
    knowledge(w).causes = causes;
    proxy_fences_.push_back({w, knowledge(w).now[w], fenced::everything, ended});
    advance(w, true);
  }
}

}  // namespace baton::check
