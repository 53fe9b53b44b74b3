#pragma once
// Litmus programs of meet_cluster: who comes waits for all, and hears nothing.
#include "tests/check/async_litmus.hpp"

namespace baton::litmus {

/// Two blocks of a warp each, which do something, meet, and do something.
template <class First, class Second>
test meeting(const char* name, First first, Second second, verdict expected) {
  return {name,
          [=](program& p, const cells& c) {
            p.clusters_of(2);
            for (int block = 0; block < 2; ++block)
              p.spawn(0, block, 0, [=](context& x) { block == 0 ? first(x, c) : second(x, c); });
          },
          expected};
}

inline std::vector<test> meeting_tests() {
  using enum verdict;
  const auto meet = [](context& x, const cells&) { x.meet_cluster(); };
  return {
      meeting(
          "who meets does not hear of what others wrote",
          [](context& x, const cells& c) {
            x.write(c.data, 1u);
            x.meet_cluster();
          },
          [](context& x, const cells& c) {
            x.meet_cluster();
            x.read(c.data);
          },
          data_race),
      meeting(
          "nor that what they read is over",
          [](context& x, const cells& c) {
            x.read(c.data);
            x.meet_cluster();
          },
          [](context& x, const cells& c) {
            x.meet_cluster();
            x.write(c.data, 1u);
          },
          data_race),
      meeting(
          "who does not come is missed", meet, [](context&, const cells&) {}, divergence),
      meeting(
          "meeting is not what others synchronise at", meet,
          [](context& x, const cells&) { x.sync_cluster(); }, deadlock),
  };
}

}  // namespace baton::litmus
