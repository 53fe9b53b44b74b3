#include "cli/bench/paced_timer.hpp"

#include <algorithm>
#include <cmath>
#include <thread>

namespace baton::cli {
namespace {

constexpr double burst_us = 15'000;
constexpr int most_queued = 200;  // a product may be two launches, and a stream that is held takes some 1,000

}  // namespace

paced_timer::paced_timer(const world& world)
    : rests_{world.device() == device_kind::cuda}, timer_{make_work_timer(world)} {}

double paced_timer::mean(const work& run, int times) {
  const double all = timer_->time([&](stream_ref stream) {
    for (int i = 0; i < times; ++i) run(stream);
  });
  return all / times;
}

double paced_timer::burst(const work& run, const burst_pace& pace) {
  if (!rests_) return timer_->time(run);
  timer_->warm(run);
  std::this_thread::sleep_for(pace.rest);
  if (pace.runs > 0) return mean(run, pace.runs);
  const double once = mean(run, 2);
  return mean(run, std::clamp(static_cast<int>(burst_us / once), 3, most_queued));
}

double paced_timer::sustained(const work& run, double milliseconds) {
  timer_->warm(run);
  const double once = mean(run, 2);
  const int times = std::clamp(static_cast<int>(20'000 / once), 1, most_queued);
  double sums[2] = {};
  int counts[2] = {};
  for (int stretch = 0; stretch < 2; ++stretch) {
    while (sums[stretch] < milliseconds * 1000) {
      sums[stretch] += times * mean(run, times);
      counts[stretch] += times;
    }
  }
  return sums[1] / counts[1];
}

}  // namespace baton::cli
