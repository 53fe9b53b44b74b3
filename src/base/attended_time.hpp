#pragma once
// How long somebody has waited who was there to see.
#include <algorithm>
#include <chrono>

namespace baton {

/// The time between looks, of which a gap counts as at most `longest_gap`: whoever was stopped, alone or with the whole machine
/// (SIGSTOP, a debugger, a suspended laptop or virtual machine), has not waited, and accuses nobody the moment it goes on.
class attended_time {
 public:
  using clock = std::chrono::steady_clock;
  static constexpr clock::duration longest_gap = std::chrono::milliseconds{500};

  explicit attended_time(clock::time_point now = clock::now()) : last_{now} {}

  /// Since it was made.
  clock::duration look(clock::time_point now = clock::now()) {
    sum_ += std::clamp(now - last_, clock::duration::zero(), longest_gap);
    last_ = now;
    return sum_;
  }

 private:
  clock::time_point last_;
  clock::duration sum_{};
};

}  // namespace baton
