#pragma once
// When a series of host-side waits must be over.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/attended_time.hpp"

namespace baton::bootstrap {

/// Longer deadlines count as this long: no clock overflows, and nobody will know the difference.
inline constexpr std::chrono::milliseconds longest_deadline = std::chrono::hours{24 * 3650};

/// How often this process has given up all that its threads then waited for, where ranks meet.
inline std::atomic<std::uint64_t> meetings_given_up{0};

/// Counts the time in which its owner was there to look, which it does at least once in a slice.
class time_limit {
 public:
  using clock = attended_time::clock;
  static constexpr std::chrono::milliseconds slice{200};
  static_assert(slice < attended_time::longest_gap);

  /// Zero: no limit, as in world_config::deadline.
  explicit time_limit(std::chrono::milliseconds from_now)
      : is_limited_{from_now.count() > 0}, most_{std::min(from_now, longest_deadline)} {}

  /// Or somebody has given up.
  bool passed() const {
    return meetings_given_up.load() != given_up_before_ || (is_limited_ && waited_.look() >= most_);
  }

  /// For messages: at a limit that has passed, exactly that.
  std::chrono::milliseconds waited() const {
    const clock::duration sum = waited_.look();
    return std::chrono::floor<std::chrono::milliseconds>(is_limited_ ? std::min(sum, most_) : sum);
  }

  /// What is left, at most a slice, so that callers can look around.
  std::chrono::milliseconds wait() const {
    using std::chrono::milliseconds;
    if (!is_limited_) return slice;
    return std::clamp(std::chrono::ceil<milliseconds>(most_ - waited_.look()), milliseconds{0}, slice);
  }

  /// The same as poll(2) takes it.
  int poll_ms() const { return static_cast<int>(wait().count()); }

 private:
  bool is_limited_;
  clock::duration most_;
  std::uint64_t given_up_before_ = meetings_given_up.load();
  mutable attended_time waited_;
};

}  // namespace baton::bootstrap
