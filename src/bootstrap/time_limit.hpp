#pragma once
// When a series of host-side waits must be over.
#include <algorithm>
#include <chrono>
#include <optional>

namespace baton::bootstrap {

/// Longer deadlines count as this long: no clock overflows, and nobody will know the difference.
inline constexpr std::chrono::milliseconds longest_deadline = std::chrono::hours{24 * 3650};

class time_limit {
 public:
  using clock = std::chrono::steady_clock;

  /// Zero: no limit, as in world_config::deadline.
  explicit time_limit(std::chrono::milliseconds from_now) {
    if (from_now.count() > 0) until_ = clock::now() + std::min(from_now, longest_deadline);
  }

  bool passed() const { return until_ && clock::now() >= *until_; }

  /// What poll(2) takes: milliseconds, rounded up, at most a slice, so that callers can look around.
  int poll_ms() const {
    using std::chrono::milliseconds;
    if (!until_) return slice_ms;
    const auto left = std::chrono::ceil<milliseconds>(*until_ - clock::now()).count();
    return left <= 0 ? 0 : left < slice_ms ? static_cast<int>(left) : slice_ms;
  }

  std::optional<clock::time_point> until() const { return until_; }

 private:
  static constexpr int slice_ms = 200;
  std::optional<clock::time_point> until_;
};

}  // namespace baton::bootstrap
