#pragma once
// Litmus programs of what stands above single accesses: counts, waits that give up, lanes of a warp.
#include "tests/check/litmus_programs.hpp"

namespace baton::litmus {

/// Warps of a block each count 1 of `target`; the one that is told reads what the others wrote.
template <order Order>
test counting(const char* name, int warps, std::uint32_t target, verdict expected,
              std::set<std::string> outcomes = {}) {
  return {name,
          [=](program& p, const cells& c) {
            auto* done = p.allocate<std::uint32_t>(4, "done");
            for (int w = 0; w < warps; ++w) {
              p.spawn(0, w, 0, [=](context& x) {
                x.write(done + w, 1u);
                if (!x.count_to<Order, dev>(c.x, 1u, target)) return;
                c.r[0] = static_cast<std::uint32_t>(w);
                for (int other = 0; other < warps; ++other) x.read(done + other);
              });
            }
          },
          expected, std::move(outcomes), r1};
}

inline std::vector<test> counting_tests() {
  using enum verdict;
  return {
      counting<acq_rel>("any of the counts may be the last, and knows of all", 3, 3, none, {"0", "1", "2"}),
      counting<release>("a last count that does not acquire", 2, 2, data_race),
      counting<acquire>("counts that do not release", 2, 2, data_race),
      counting<acq_rel>("a count short of the target knows of none", 3, 2, data_race),
      {"a count that takes what it was not told for known",
       [](program& p, const cells& c) {
         p.spawn(0, 0, 0, [=](context& x) {
           x.write(c.data, 1u);
           x.count_to<acq_rel, dev>(c.x, 1u, 3u);
         });
         p.spawn(0, 1, 0, [=](context& x) {
           if (!x.count_to<acq_rel, dev>(c.x, 1u, 3u)) x.read(c.data);
         });
       },
       data_race},
      {"a look at a counter half-way",
       [](program& p, const cells& c) {
         for (int block = 0; block < 2; ++block)
           p.spawn(0, block, 0, [=](context& x) { x.count_to<acq_rel, dev>(c.x, 1u, 3u); });
         p.spawn(0, 2, 0, [=](context& x) { c.r[0] = x.load<acquire, dev>(c.x); });
       },
       counter_misuse},
      {"a counter that is put back while others count",
       [](program& p, const cells& c) {
         p.spawn(0, 0, 0, [=](context& x) { x.count_to<acq_rel, dev>(c.x, 1u, 2u); });
         p.spawn(0, 1, 0, [=](context& x) { x.store<release, dev>(c.x, 0u); });
       },
       unordered_stores},
  };
}

inline std::vector<test> giving_up_tests() {
  using enum verdict;
  return {
      {"another block of the rank hears that a wait gave up, sooner or later",
       [](program& p, const cells& c) {
         p.spawn(0, 0, 0, [=](context& x) { wait_for<acquire, sys>(x, c.x, 1); });
         p.spawn(0, 1, 0, [=](context& x) { c.r[0] = x.has_given_up() ? 1 : 0; });
         p.spawn(1, 0, 0, [=](context& x) { c.r[1] = x.has_given_up() ? 1 : 0; });
       },
       none,
       {"00", "10"},
       r2,
       true},
      {"a wait whose words are there does not give up",
       [](program& p, const cells& c) {
         p.spawn(0, 0, 0, [=](context& x) {
           x.store<relaxed, sys>(c.x, 1u);
           c.r[0] = wait_for<acquire, sys>(x, c.x, 1) ? 1 : 0;
         });
       },
       none,
       {"1"},
       r1,
       true},
      {"a wait that gave up does not say what it saw",
       [](program& p, const cells& c) {
         p.spawn(0, 0, 0, [=, &p](context& x) {
           context::lanes<std::uint32_t*> words{};
           context::lanes<std::uint32_t> seen{};
           words[0] = c.x;
           words[1] = c.y;
           const bool ended = x.wait<acquire, sys>(
               words, [](int, std::uint32_t v) { return v == 1; }, wait_site{.where = "test"}, seen);
           p.require(ended || seen[0] == 0, "nothing had come when the wait gave up");
         });
         p.spawn(1, 0, 0, [=](context& x) { x.store<release, sys>(c.x, 1u); });
       },
       broken_promise,
       {},
       {},
       true},
  };
}

/// Lanes 0 to 15 write, lane 0 releases; a reader of the last one's.
inline test lanes_hand_over(const char* name, bool synchronises, verdict expected) {
  return {name,
          [=](program& p, const cells& c) {
            auto* row = p.allocate<std::uint32_t>(16, "row");
            p.spawn(0, 0, 0, [=](context& x) {
              x.each(16, [&](int i) { x.write(row + i, 1u); });
              if (synchronises) x.sync_warp();
              x.elect([&] { x.store<release, sys>(c.x, 1u); });
            });
            p.spawn(1, 0, 0, [=](context& x) {
              if (wait_for<acquire, sys>(x, c.x, 1)) x.elect([&] { x.read(row + 15); });
            });
          },
          expected};
}

/// One warp; `between`: sync_warp or not.
template <class First, class Second>
test in_one_warp(const char* name, First first, bool synchronises, Second second, verdict expected) {
  return {name,
          [=](program& p, const cells& c) {
            p.spawn(0, 0, 0, [=](context& x) {
              first(x, c);
              if (synchronises) x.sync_warp();
              second(x, c);
            });
          },
          expected};
}

/// One lane learns what another rank did; all read.
inline test one_lane_learns(const char* name, bool synchronises, verdict expected) {
  return {name,
          [=](program& p, const cells& c) {
            p.spawn(0, 0, 0, [=](context& x) {
              x.write(c.data, 1u);
              x.store<release, sys>(c.x, 1u);
            });
            p.spawn(1, 0, 0, [=](context& x) {
              if (!wait_for<relaxed, sys>(x, c.x, 1)) return;
              x.elect([&] { x.load<acquire, sys>(c.x); });
              if (synchronises) x.sync_warp();
              x.each_lane([&](int) { x.read(c.data); });
            });
          },
          expected};
}

/// One lane learns what another rank did; then the block meets, and all lanes know what its other warp wrote.
inline test one_lane_learns_before_the_block_meets(const char* name) {
  return {name,
          [=](program& p, const cells& c) {
            p.spawn(0, 0, 0, [=](context& x) { x.store<release, sys>(c.x, 1u); });
            p.spawn(1, 0, 0, [=](context& x) {
              if (!wait_for<relaxed, sys>(x, c.x, 1)) return;
              x.elect([&] { x.load<acquire, sys>(c.x); });
              x.sync_block();
              x.each_lane([&](int) { x.read(c.data); });
            });
            p.spawn(1, 0, 1, [=](context& x) {
              x.elect([&] { x.write(c.data, 1u); });
              x.sync_block();
            });
          },
          verdict::none};
}

inline std::vector<test> lane_tests() {
  using enum verdict;
  const auto one_writes = [](context& x, const cells& c) { x.elect([&] { x.write(c.data, 5u); }); };
  const auto all_read = [](context& x, const cells& c) { x.each_lane([&](int) { x.read(c.data); }); };
  const auto all_write = [](context& x, const cells& c) { x.each_lane([&](int) { x.write(c.data, 5u); }); };
  const auto halves = [](context& x, const cells& c) {
    x.each(2, [&](int i) { x.write(reinterpret_cast<std::uint16_t*>(c.data) + i, std::uint16_t{1}); });
  };
  const auto nothing = [](context&, const cells&) {};
  return {
      lanes_hand_over("a release of one lane does not cover what others wrote", false, data_race),
      lanes_hand_over("it does after sync_warp", true, none),
      in_one_warp("what one lane wrote is not there for the others", one_writes, false, all_read, data_race),
      in_one_warp("it is after sync_warp", one_writes, true, all_read, none),
      in_one_warp("what the others read is not to be overwritten", all_read, false, one_writes, data_race),
      in_one_warp("it is after sync_warp, too", all_read, true, one_writes, none),
      in_one_warp("one lane after itself", one_writes, false, one_writes, none),
      in_one_warp("lanes that write one word", nothing, false, all_write, data_race),
      in_one_warp("lanes that write halves of one word", nothing, false, halves, none),
      one_lane_learns("what one lane has learnt the others do not know", false, data_race),
      one_lane_learns("they do after sync_warp", true, none),
      one_lane_learns_before_the_block_meets(
          "all lanes know what the block did, whatever one of them had learnt"),
  };
}

}  // namespace baton::litmus
