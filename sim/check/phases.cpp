// mbarriers: arrivals collect in an open phase, which becomes a message when it completes.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "sim/check/memory.hpp"
#include "sim/mbarrier_model.hpp"

namespace baton::check {
namespace {

sim::mbarrier_state after(const operation& op, std::uint64_t word) {
  const auto before = sim::mbarrier_state::of(word);
  const auto amount = static_cast<std::int64_t>(op.value);
  switch (op.what) {
    case verb::arrive:
      return sim::arrive(before, amount);
    case verb::arrive_expect:
      return sim::arrive_expect(before, amount);
    default:
      return sim::complete(before, amount);
  }
}

bool completes(std::uint64_t before, const sim::mbarrier_state& now) {
  return now.phase != sim::mbarrier_state::of(before).phase;
}

}  // namespace

open_phase& memory::open_phase_of(atomic_word& w) {
  if (w.open_phase < 0) {
    w.open_phase = static_cast<int>(open_phases_.size());
    open_phases_.emplace_back();
  }
  return open_phases_[static_cast<std::size_t>(w.open_phase)];
}

std::uint64_t memory::mbarrier_word(int index) const {
  return word(index).in_memory();
}

bool memory::would_complete(const operation& op, int index) const {
  if (op.what == verb::count_to) return word(index).in_memory() + op.value == op.target;
  const std::uint64_t before = mbarrier_word(index);
  return completes(before, after(op, before));
}

const vector_clock& memory::phase_causes(int index) const {
  static const vector_clock nothing;
  const int open = word(index).open_phase;
  return open < 0 ? nothing : open_phases_[static_cast<std::size_t>(open)].causes;
}

const message& memory::settled(int index) const {
  const atomic_word& w = word(index);
  const auto last = std::find_if(w.messages.rbegin(), w.messages.rend(),
                                 [](const message& m) { return !m.short_of_target; });
  return *last;
}

vector_clock memory::causes_of_write(const operation& op, int index) const {
  vector_clock all = settled(index).causes;
  if (op.what != verb::count_to && !is_arrival(op.what)) all.join(phase_causes(index));
  return all;
}

/// What the copy engine or another block touches must have been initialised, and fenced, before.
void memory::check_init(int warp, const atomic_word& w) {
  const shadow_cell& cell = shadow_.at(reinterpret_cast<std::uintptr_t>(w.address));
  if (cell.writer < 0 || has_met_init(warp, cell) ||
      is_fenced(warp, cell.writer, cell.written, fenced::inits) || found_.any())
    return;
  found_.add_unfenced(fmt::format("{} counts on {} without fence_mbarrier_init after {} initialised it",
                                  name(warps_[static_cast<std::size_t>(warp)]), names_.of(w.address),
                                  name(warps_[static_cast<std::size_t>(cell.writer)])));
}

/// Arrivals commute only if each counts for the same phase in every schedule.
void memory::check_phase(int warp, const open_phase& phase, const atomic_word& w) {
  if (fault_ == planted_fault::phases_run_together || found_.any()) return;
  for (int q = 0; q < static_cast<int>(warps_.size()); ++q) {
    const tick arrived = phase.before[static_cast<std::size_t>(q)];
    if (arrived == 0 || !not_over(warp, q, arrived)) continue;
    return found_.add(
        verdict::mbarrier_misuse,
        fmt::format(
            "{} arrives at {} without knowing that {} arrived in the phase before: for which phase it "
            "counts depends on the schedule",
            name(warps_[static_cast<std::size_t>(warp)]), names_.of(w.address),
            name(warps_[static_cast<std::size_t>(q)])));
  }
}

void memory::arrive(int warp, const operation& op, int word, int step) {
  atomic_word& w = words_[static_cast<std::size_t>(word)];
  open_phase& open = open_phase_of(w);
  const bool is_end = op.covers == tells::ends;  // heard at any scope, as it hands on no value
  if (!is_end) check_scopes(warp, op, w);
  check_plain_neighbours(warp, true, w, true);
  if (op.from_outside) check_init(warp, w);
  check_phase(warp, open, w);
  if (w.messages.back().garbage) read_garbage(warp, w.address);
  w.only_system_scope = false;
  const auto me = static_cast<std::size_t>(warp);
  warp_knowledge& k = knowledge(warp);
  if (!is_end) w.writes[static_cast<std::size_t>(op.reach)][me] = k.now[warp];
  w.write_step[me] = static_cast<tick>(step + 1);
  open.arrived[me] = k.now[warp];
  k.causes.join(w.messages.back().causes);
  open.causes.join(k.causes);
  open.causes.set(warp, static_cast<tick>(step + 1));
  mark_arrival(warp, op, open);

  const std::uint64_t before = w.in_memory(), changed = after(op, before).word();
  const auto now = sim::mbarrier_state::of(changed);
  const bool done = completes(before, now);
  std::memcpy(w.address, &changed, sizeof changed);
  if (now.fault != sim::mbarrier_fault::none)
    found_.add(verdict::mbarrier_misuse,
               fmt::format("{} at {}: {}", name(warps_[me]), names_.of(w.address), sim::name(now.fault)));
  if (done) complete_phase(warp, op, w, step);
}

void memory::mark_arrival(int warp, const operation& op, open_phase& open) {
  const warp_knowledge& k = knowledge(warp);
  const bool is_store = op.covers == tells::own_stores && fault_ != planted_fault::counted_stores_tell_all;
  const bool is_end = op.covers == tells::ends && fault_ != planted_fault::ends_tell_all;
  if (is_store || is_end || fault_ != planted_fault::ends_end_with_one)
    open.marks.push_back({warp, op.reach, k.elsewhere.ended, known_as::over_unread});
  if (!is_store && !is_end) return open.marks.push_back({warp, op.reach, k.now});
  vector_clock over = k.now;
  if (is_store) {
    vector_clock own;
    own.set(warp, k.now[warp]);
    open.marks.push_back({warp, op.reach, own});
    over.set(warp, 0);
    over.set(k.storer, 0);
  }
  open.marks.push_back({warp, op.reach, over, known_as::over});
}

void memory::complete_phase(int warp, const operation& op, atomic_word& w, int step) {
  open_phase& open = open_phases_[static_cast<std::size_t>(w.open_phase)];
  message m;
  m.value = w.in_memory();
  m.warp = warp;
  m.reach = op.reach;
  m.when = knowledge(warp).now[warp];
  m.born = step;
  m.causes = open.causes;
  m.phase = static_cast<int>(phases_.size());
  phases_.push_back(open.arrived);
  m.first_mark = static_cast<std::uint32_t>(marks_.size());
  const bool forgets = fault_ == planted_fault::last_arrival_only;
  for (std::size_t i = forgets ? open.marks.size() - 1 : 0; i < open.marks.size(); ++i)
    add_mark(m, open.marks[i]);
  append(w, m);
  open = {{}, open.arrived, {}, {}};
}

void memory::fence_proxy(int warp, fenced what) {
  const vector_clock& now = knowledge(warp).now;
  proxy_fences_.push_back({warp, now[warp], what, now});
  advance(warp, true);
}

/// A fence lies between the write and what the viewer does now.
bool memory::is_fenced(int viewer, int writer, tick written, fenced what) const {
  if (fault_ == planted_fault::proxies_ignored) return true;
  const vector_clock& now = knowledge_[static_cast<std::size_t>(viewer)].now;
  // The newest first, as it is mostly one of these.
  return std::any_of(proxy_fences_.rbegin(), proxy_fences_.rend(), [&](const proxy_fence& f) {
    const bool is_meant =
        f.what == fenced::everything || f.what == what || (f.what == fenced::shared && what == fenced::inits);
    return is_meant && now.includes(f.warp, f.when) && f.covers.includes(writer, written);
  });
}

int memory::add(const position& where) {
  const auto index = static_cast<int>(warps_.size());
  warps_.push_back(where);
  knowledge_.emplace_back();
  knowledge_.back().now.set(index, 1);
  return index;
}

/// It knows what its issuer, or the lane of it that issues, knows.
warp_knowledge& memory::taught_by(int issuer, int participant) {
  warp_knowledge& mine = knowledge(participant);
  const warp_knowledge& teacher = knowledge(issuer);
  const tick own = mine.now[participant];
  mine = {};
  mine.now = known_to_lane(issuer);
  mine.now.set(participant, own);
  mine.now.set(issuer, teacher.now[issuer]);
  mine.causes = teacher.causes;
  mine.elsewhere = teacher.elsewhere;
  mine.met_inits = teacher.met_inits;
  return mine;
}

void memory::begin_copy(int copy, int issuer) {
  taught_by(issuer, copy).elsewhere.join(knowledge(issuer).elsewhere_for_engines);
  advance(issuer, true);
}

void memory::begin_store(int copy, int issuer) {
  taught_by(issuer, copy).storer = issuer;
  advance(issuer, false);
}

}  // namespace baton::check
