#pragma once
// Litmus programs of meet_cluster: who comes waits for all, and hears nothing but inits of mbarriers that were fenced.
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

/// Who initialises an mbarrier of a block, and who fences that, before the other block arrives there behind a meeting.
enum class init_of { fenced, unfenced, fenced_by_another };

/// Two blocks of two warps each.
inline test meeting_of_inits(const char* name, init_of how, verdict expected) {
  return {name,
          [=](program& p, const cells&) {
            p.shared_memory(async_shared_bytes);
            p.clusters_of(2);
            for (int n = 0; n < 4; ++n)
              p.spawn(0, n / 2, n % 2, [=](context& x) {
                if (x.warp() == 0) x.mbarrier_init(bar(x), 1);
                if (how == init_of::fenced_by_another) x.sync_block();
                if (how != init_of::unfenced && x.warp() == (how == init_of::fenced ? 0 : 1))
                  x.fence_mbarrier_init();
                x.sync_block();
                x.meet_cluster();
                if (x.warp() == 1) x.mbarrier_arrive_at(bar(x), 1 - x.cluster_block(), 1);
                if (x.warp() == 0) await<scope::cluster>(x, bar(x), parity::even);
                x.meet_cluster();
              });
          },
          expected};
}

inline std::vector<test> meeting_tests() {
  using enum verdict;
  const auto meet = [](context& x, const cells&) { x.meet_cluster(); };
  return {
      meeting_of_inits("who meets hears of inits that were fenced", init_of::fenced, none),
      meeting_of_inits("not of those that were not", init_of::unfenced, data_race),
      meeting_of_inits("nor of those that another warp has fenced", init_of::fenced_by_another, data_race),
      meeting(
          "a fence of inits tells of nothing else",
          [](context& x, const cells& c) {
            x.write(c.data, 1u);
            x.fence_mbarrier_init();
            x.meet_cluster();
          },
          [](context& x, const cells& c) {
            x.meet_cluster();
            x.read(c.data);
          },
          data_race),
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
