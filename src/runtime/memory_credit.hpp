#pragma once
// To look at what the machine and its control groups have free takes a dozen files, one of which costs the kernel a sum over
// all CPUs: more than to take a small piece of memory. So for little memory an answer is good for a while; who looks reserves
// nothing anyway.
#include <atomic>
#include <chrono>
#include <cstddef>

#include "base/math.hpp"

namespace baton {

class memory_credit {
 public:
  using time = std::chrono::steady_clock::time_point;
  static constexpr std::size_t most = 16 << 20;  // bytes on one look,
  static constexpr std::size_t part = 256;       // but no more than this part of what was free
  static constexpr std::chrono::milliseconds good_for{50};

  /// Whether the last look is good for `bytes` more at `now`; counts them. By any thread.
  bool covers(std::size_t bytes, time now) {
    if (now.time_since_epoch() >= good_until_.load()) return false;
    std::size_t left = left_.load();
    do {
      if (bytes > left) return false;
    } while (!left_.compare_exchange_weak(left, left - bytes));
    return true;
  }

  /// A look at `now` found that many bytes free, beside those that it was for.
  void found(std::size_t free, time now) {
    left_ = smaller(free / part, most);
    good_until_ = now.time_since_epoch() + good_for;
  }

 private:
  std::atomic<std::size_t> left_{0};
  std::atomic<time::duration> good_until_{time::duration::zero()};
};

}  // namespace baton
