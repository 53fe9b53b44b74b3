#pragma once
// How long work takes in a burst, when the device has rested, and without a pause, when it is as warm as it gets.
#include <chrono>

#include "cli/bench/work_timer.hpp"

namespace baton::cli {

/// How a burst begins, and how much of it there is.
struct burst_pace {
  std::chrono::milliseconds rest{150};
  int runs = 0;  // 0: about 15 ms of them, at most 200, after two of them
};

class paced_timer {
 public:
  explicit paced_timer(const world& world);

  /// Microseconds of one run. On CUDA the mean of a burst of them after a rest; on the CPU of one.
  double burst(const work& run, const burst_pace& pace = {});
  /// The mean of `milliseconds` of runs that follow as long a stretch of them; every 20 ms or 200 runs the stream is empty
  /// for as long as a batch takes to be queued.
  double sustained(const work& run, double milliseconds);

 private:
  double mean(const work& run, int times);

  bool rests_;
  std::unique_ptr<work_timer> timer_;
};

}  // namespace baton::cli
