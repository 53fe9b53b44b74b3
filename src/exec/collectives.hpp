#pragma once
// What warps do together, made of the context's verbs.
#include "base/math.hpp"
#include "exec/exec.hpp"

namespace baton {

/// `value` from a broadcast, so that the compiler knows that it is the same in all lanes, and what comes of it.
template <exec_context X>
BATON_FN int known_to_all(X& x, int value) {
  typename X::template lanes<int> of_lane;
  x.each_lane([&](int lane) { of_lane[lane] = value; });
  return x.broadcast(of_lane, 0);
}

/// Lane i gets the sum of lanes 0..i.
template <exec_context X>
BATON_FN void inclusive_scan(X& x, typename X::template lanes<int>& values) {
  for (int distance = 1; distance < warp_lanes; distance *= 2) {
    const auto lower = x.shuffle_up(values, distance);
    x.each_lane([&](int lane) {
      if (lane >= distance) values[lane] += lower[lane];
    });
  }
}

/// One warp: sums[i + 1] holds a count of its own for each i of `count`, and becomes the sum of all to i; sums[0] becomes 0. Each
/// lane adds up neighbours.
template <exec_context X>
BATON_FN void sum_up(X& x, std::int32_t* sums, int count) {
  const int share = ceil_div(count, warp_lanes);
  typename X::template lanes<int> own, sum;
  x.each_lane([&](int lane) {
    own[lane] = 0;
    for (int i = lane * share; i < smaller((lane + 1) * share, count); ++i) own[lane] += x.read(sums + i + 1);
    sum[lane] = own[lane];
  });
  inclusive_scan(x, sum);
  x.each_lane([&](int lane) {
    int before = sum[lane] - own[lane];
    for (int i = lane * share; i < smaller((lane + 1) * share, count); ++i) {
      before += x.read(sums + i + 1);
      x.write(sums + i + 1, before);
    }
  });
  x.elect([&] { x.write(sums, 0); });
}

/// The largest i below `count` with sums[i] <= `value`, of ascending sums that begin with 0.
template <exec_context X>
BATON_FN int last_not_above(X& x, const std::int32_t* sums, int count, int value) {
  int low = 0, high = count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (x.read(sums + middle) <= value ? low : high) = middle;
  }
  return low;
}

}  // namespace baton
