// The half of the memory model that makes order: atomic accesses, fences and barriers.
#include <fmt/format.h>

#include <algorithm>

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

/// Learns what the message's releases cover, as far as both sides can hear each other.
void memory::take(int warp, const operation& op, const message& m) {
  if (!strong(warp, op.reach, m) || fault_ == planted_fault::acquire_forgets) return;
  warp_knowledge& me = knowledge(warp);
  const bool acquire = acquires(op.ordering) || fault_ == planted_fault::relaxed_acquires;
  for (std::uint32_t i = 0; i < m.num_marks; ++i) {
    const release_mark& mark = marks_[m.first_mark + i];
    if (mark.warp == warp || !hear_each_other(warp, op.reach, mark.warp, mark.reach)) continue;
    if (acquire) {
      me.now.join(mark.covers);
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

void memory::see(int warp, const operation& op, atomic_word& w, int message_index) {
  message& m = w.messages[static_cast<std::size_t>(message_index)];
  tick& first = m.first_reads[static_cast<std::size_t>(warp)];
  if (first == 0) first = knowledge(warp).now[warp];
  knowledge(warp).causes.join(m.causes);
  take(warp, op, m);
}

std::uint64_t memory::load(int warp, const operation& op, int word, int message_index, int step) {
  atomic_word& w = words_[static_cast<std::size_t>(word)];
  check_scopes(warp, op, w);
  check_plain_neighbours(warp, false, w);
  w.only_system_scope = w.only_system_scope && op.reach == scope::system;
  const auto me = static_cast<std::size_t>(warp);
  w.reads[index(op.reach)][me] = knowledge(warp).now[warp];
  w.read_step[me] = static_cast<tick>(step + 1);
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
    if (existing.warp != mark.warp || existing.reach != mark.reach) continue;
    existing.covers.join(mark.covers);
    return;
  }
  marks_.push_back(mark);
  ++m.num_marks;
}

/// The releases of a store: its own, those of fences before it, and, if it is a read-modify-write, those of
/// the message it replaces.
void memory::mark_releases(int warp, const operation& op, const message* replaced, message& m) {
  m.first_mark = static_cast<std::uint32_t>(marks_.size());
  if (replaced != nullptr && strong(warp, op.reach, *replaced) &&
      fault_ != planted_fault::rmw_breaks_release) {
    for (std::uint32_t i = 0; i < replaced->num_marks; ++i) {
      const release_mark copy = marks_[replaced->first_mark + i];
      add_mark(m, copy);
    }
  }
  const warp_knowledge& me = knowledge(warp);
  for (const scope s : every_scope) {
    if (me.has_fence[index(s)]) add_mark(m, {warp, narrower(s, op.reach), me.fenced[index(s)]});
  }
  if (releases(op.ordering) || fault_ == planted_fault::relaxed_releases)
    add_mark(m, {warp, op.reach, me.now});
}

std::uint64_t memory::store(int warp, const operation& op, int word, int step) {
  atomic_word& w = words_[static_cast<std::size_t>(word)];
  check_scopes(warp, op, w);
  check_plain_neighbours(warp, true, w);
  w.only_system_scope = w.only_system_scope && op.reach == scope::system;
  const auto me = static_cast<std::size_t>(warp);
  const std::uint64_t before = w.messages.back().value;
  warp_knowledge& k = knowledge(warp);
  k.causes.join(w.messages.back().causes);  // stores to one word keep their order
  if (is_rmw(op.what)) see(warp, op, w, static_cast<int>(w.messages.size()) - 1);
  message m;
  m.warp = warp;
  m.reach = op.reach;
  m.when = k.now[warp];
  m.born = step;
  m.causes = k.causes;
  m.causes.set(warp, static_cast<tick>(step + 1));
  switch (op.what) {
    case verb::fetch_add:
      m.value = before + op.value;
      break;
    case verb::fetch_min:
      m.value = std::min(before, op.value);
      break;
    default:
      m.value = op.value;
      break;
  }
  if (w.bytes == 4) m.value &= 0xffffffffu;
  mark_releases(warp, op, is_rmw(op.what) ? &w.messages.back() : nullptr, m);
  w.writes[index(op.reach)][me] = m.when;
  w.write_step[me] = static_cast<tick>(step + 1);
  append(w, m);
  return before;
}

void memory::advance(int warp, bool after_release) {
  if (after_release && fault_ == planted_fault::clock_stands_still) return;
  knowledge(warp).now.advance(warp);
}

void memory::fence(int warp, order ordering, scope reach) {
  if (fault_ == planted_fault::fences_ignored) return;
  warp_knowledge& me = knowledge(warp);
  if (acquires(ordering)) {
    for (const release_mark& u : me.unfenced) {
      if (hear_each_other(warp, narrower(u.reach, reach), u.warp, u.reach)) me.now.join(u.covers);
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
    knowledge(w).causes = causes;
    advance(w, true);
  }
}

}  // namespace baton::check
