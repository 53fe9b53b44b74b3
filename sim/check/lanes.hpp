#pragma once
// Lanes of a warp. They run one after the other here, but on hardware nothing orders what one lane does before what another
// one does, except sync_warp and what contains it. A release covers what its own lane did, and what all lanes did before the
// last sync_warp.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/check/vector_clock.hpp"

namespace baton::check {

inline constexpr int whole_warp = -1;  // not inside a lane verb: as if every lane did it

/// The past of one warp's lanes, by the warp's ticks.
class lane_history {
 public:
  void reset() {
    syncs_.clear();
    releases_.clear();
  }
  /// The lanes meet at the end of tick `now`.
  void sync(tick now) { syncs_.push_back(now); }
  void release(tick now, int lane) { releases_.push_back({now, lane}); }

  /// The lanes met after `then` and before `now`.
  bool met(tick then, tick now) const {
    if (syncs_.empty() || syncs_.back() < then) return false;
    return syncs_.back() < now || *std::lower_bound(syncs_.begin(), syncs_.end(), then) < now;
  }
  /// Who knows the warp up to `known` knows what `lane` did at `then`. Somebody who has heard a later release of one lane
  /// is taken to have heard the earlier ones of others.
  bool covers(int lane, tick then, tick known) const {
    if (lane == whole_warp || met(then, known)) return true;
    const auto begin = std::lower_bound(releases_.begin(), releases_.end(), then,
                                        [](const release_of& r, tick t) { return r.when < t; });
    return std::any_of(begin, releases_.end(), [&](const release_of& r) {
      return r.when <= known && (r.lane == lane || r.lane == whole_warp);
    });
  }

 private:
  struct release_of {
    tick when;
    int lane;
  };
  std::vector<tick> syncs_;
  std::vector<release_of> releases_;
};

/// What one warp's lanes did to a cell since they last met.
struct lane_marks {
  std::int8_t writer = whole_warp;
  std::uint8_t written_bytes = 0;  // bit i: byte i of the cell
  std::int8_t reader = -1;         // the warp that read last
  tick read = 0;                   // when the first of `readers` did
  std::uint32_t readers = 0;       // lanes of it; 0: the whole warp
};

}  // namespace baton::check
