// Races between lanes of a warp, and of one lane with other warps.
#include "sim/check/lanes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "sim/check/memory.hpp"

namespace baton::check {

void memory::sync_warp(int warp) {
  lanes_[static_cast<std::size_t>(warp)].sync(knowledge(warp).now[warp]);
  advance(warp, false);
  warp_knowledge& me = knowledge(warp);
  me.common = me.now;
  me.has_learnt = false;
}

/// By the lane that runs.
void memory::learn(int warp, const vector_clock& covers) {
  warp_knowledge& me = knowledge(warp);
  if (!me.has_learnt) {
    me.common = me.now;
    me.learner = me.lane;
  } else if (me.learner != me.lane) {
    me.learner = whole_warp;
  }
  me.has_learnt = true;
  me.now.join(covers);
}

const vector_clock& memory::known_to_lane(int warp) const {
  const warp_knowledge& me = knowledge_[static_cast<std::size_t>(warp)];
  const bool others =
      me.has_learnt && me.learner != whole_warp && me.lane != whole_warp && me.lane != me.learner;
  return others && fault_ != planted_fault::lanes_move_together ? me.common : me.now;
}

void memory::lanes_race(int warp, bool writes, int other, int lane, const char* other_did,
                        std::uintptr_t at) {
  if (found_.any()) return;
  const std::string mine =
      knowledge(warp).lane == whole_warp ? "" : fmt::format("lane {} of ", knowledge(warp).lane);
  found_.add_unfenced(
      fmt::format("{}{} {} {} without order after lane {} of {} {} it: no sync_warp lies between", mine,
                  name(warps_[static_cast<std::size_t>(warp)]), writes ? "writes" : "reads",
                  names_.of(reinterpret_cast<const void*>(at)), lane,
                  name(warps_[static_cast<std::size_t>(other)]), other_did));
}

/// The cell's last accesses were by lanes that need not have come before this one, though their warps have.
void memory::check_lanes(int warp, bool writes, const shadow_cell& cell, std::uintptr_t at, unsigned bytes) {
  if (fault_ == planted_fault::lanes_move_together) return;
  const warp_knowledge& me = knowledge(warp);
  const auto comes_after = [&](int other, int lane, tick then, const auto& known) {
    const lane_history& theirs = lanes_[static_cast<std::size_t>(other)];
    if (other == me.storer) return true;  // check_issuer
    if (other != warp) return theirs.covers(lane, then, known(other));
    return lane == whole_warp || me.lane == whole_warp || lane == me.lane || theirs.met(then, me.now[warp]);
  };
  const lane_marks& did = cell.lanes;
  if (cell.writer >= 0 && (did.written_bytes & bytes) != 0 &&
      !comes_after(cell.writer, did.writer, cell.written, [&](int other) {
        return writes ? std::max(me.now[other], me.elsewhere.replaceable[other]) : me.now[other];
      }))
    return lanes_race(warp, writes, cell.writer, did.writer, "wrote", at);
  if (!writes || did.reader < 0) return;
  for (std::uint32_t rest = did.readers; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    const auto is_over = [&](int other) { return std::max(me.now[other], me.elsewhere.ended[other]); };
    if (!comes_after(did.reader, lane, did.read, is_over))
      return lanes_race(warp, writes, did.reader, lane, "read", at);
  }
}

void memory::mark_lane(int warp, bool writes, shadow_cell& cell, unsigned bytes) {
  const warp_knowledge& me = knowledge(warp);
  const lane_history& mine = lanes_[static_cast<std::size_t>(warp)];
  lane_marks& did = cell.lanes;
  if (writes) {
    const bool beside = cell.writer == warp && did.writer != me.lane && !mine.met(cell.written, me.now[warp]);
    did.written_bytes = static_cast<std::uint8_t>(beside ? did.written_bytes | bytes : bytes);
    did.writer =
        static_cast<std::int8_t>(beside ? whole_warp : me.lane);  // several lanes: who of them is not kept
    return;
  }
  if (did.reader != warp || mine.met(did.read, me.now[warp]) || did.readers == 0) {
    did.reader = static_cast<std::int8_t>(warp);
    did.read = me.now[warp];
    did.readers = 0;
  }
  if (me.lane != whole_warp) did.readers |= 1u << me.lane;
}

}  // namespace baton::check
