#pragma once
// Vector clocks: what a warp knows of every warp's past.
#include <array>
#include <cstddef>
#include <cstdint>

namespace baton::check {

/// Warps of one program, all ranks together.
inline constexpr int max_warps = 32;
/// Participants: warps first, then the copies that are on their way.
inline constexpr int max_participants = 64;

/// A moment in one participant's life; 0 comes before everything.
using tick = std::uint16_t;
using tick_array = std::array<tick, max_participants>;

class vector_clock {
 public:
  tick operator[](int warp) const { return at_[static_cast<std::size_t>(warp)]; }
  void set(int warp, tick t) { at_[static_cast<std::size_t>(warp)] = t; }
  void advance(int warp) { ++at_[static_cast<std::size_t>(warp)]; }
  void join(const vector_clock& other) {
    for (std::size_t i = 0; i < at_.size(); ++i) at_[i] = at_[i] < other.at_[i] ? other.at_[i] : at_[i];
  }

  /// The event that `warp` performed at `t` is in this past.
  bool includes(int warp, tick t) const { return at_[static_cast<std::size_t>(warp)] >= t; }

  /// At least one of the events (0: none) is in this past.
  bool includes_any(const tick_array& events) const {
    bool any = false;
    for (std::size_t i = 0; i < at_.size(); ++i) any |= events[i] != 0 && events[i] <= at_[i];
    return any;
  }
  /// All of the events are in this past; of the first `count` participants, where others have none.
  bool includes_all(const tick_array& events, std::size_t count = max_participants) const {
    bool all = true;
    for (std::size_t i = 0; i < count; ++i) all &= events[i] <= at_[i];
    return all;
  }

 private:
  tick_array at_{};
};

}  // namespace baton::check
