// The asynchronous verbs of the CPU machine: what they order, and that leaving out an order shows in some schedule.
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "baton/error.hpp"
#include "sim/context.hpp"
#include "tests/cpu/says.hpp"

namespace baton::sim {
namespace {

constexpr wait_site at_test{.where = "test"};
constexpr int num_schedules = 60;

/// Runs `kernel` under one schedule on a fresh machine.
void run(schedule order, std::uint64_t seed, grid g, const std::function<void(context&)>& kernel) {
  machine m{1, {.order = order, .seed = seed, .delay_stores = order != schedule::round_robin, .faults = {}}};
  m.launch(0, g, kernel);
  m.run(0);
}

/// How many of the schedules make `wrong`, which the kernel counts up.
template <class Kernel>
int schedules_with_errors(grid g, Kernel kernel) {
  int bad = 0;
  for (const auto order : {schedule::round_robin, schedule::random, schedule::priority}) {
    for (std::uint64_t seed = 1; seed <= (order == schedule::round_robin ? 1 : num_schedules); ++seed) {
      int wrong = 0;
      run(order, seed, g, [&](context& x) { kernel(x, wrong); });
      bad += wrong > 0 ? 1 : 0;
    }
  }
  return bad;
}

/// Shared memory of the tests: barriers, then two slots of 256 words.
struct ring_memory {
  explicit ring_memory(context& x)
      : full{reinterpret_cast<mbarrier*>(x.shared())},
        empty{full + 2},
        slot{reinterpret_cast<std::uint32_t*>(x.shared() + 64),
             reinterpret_cast<std::uint32_t*>(x.shared() + 1088)} {}
  static constexpr int words = 256, slot_bytes = 4 * words;
  static constexpr std::size_t bytes = 64 + 2 * slot_bytes;
  mbarrier *full, *empty;
  std::uint32_t* slot[2];
};

void init(context& x, ring_memory& m, int full, int empty) {
  if (x.warp() == 0) {
    x.elect([&] {
      for (int s = 0; s < 2; ++s) {
        x.mbarrier_init(m.full + s, full);
        x.mbarrier_init(m.empty + s, empty);
      }
      x.fence_mbarrier_init();
    });
  }
  x.sync_block();
}

std::vector<std::uint32_t> numbered(int words) {
  std::vector<std::uint32_t> v;
  for (int i = 0; i < words; ++i) v.push_back(static_cast<std::uint32_t>(i) + 1);
  return v;
}

/// Warp 0 loads `tiles` tiles through two slots; warp 1 reads them.
template <bool WaitsForFull, bool WaitsForEmpty>
void stream(context& x, const std::vector<std::uint32_t>& from, int tiles, int& wrong) {
  ring_memory m{x};
  init(x, m, 1, 1);
  for (std::uint32_t t = 0; t < static_cast<std::uint32_t>(tiles); ++t) {
    const std::uint32_t s = t % 2, lap = t / 2;
    if (x.warp() == 0) {
      if (WaitsForEmpty) x.mbarrier_wait<scope::block>(m.empty + s, !parity_of(lap), at_test);
      x.elect([&] {
        x.mbarrier_arrive_expect(m.full + s, ring_memory::slot_bytes);
        x.bulk_load(m.slot[s], from.data() + t * ring_memory::words, ring_memory::slot_bytes, m.full + s);
      });
    } else {
      if (WaitsForFull) x.mbarrier_wait<scope::block>(m.full + s, parity_of(lap), at_test);
      for (int i = 0; i < ring_memory::words; ++i)
        wrong += x.read(m.slot[s] + i) != from[t * ring_memory::words + static_cast<std::uint32_t>(i)];
      x.elect([&] { x.mbarrier_arrive(m.empty + s, 1); });
    }
  }
}

constexpr grid two_warps{.blocks = 1, .warps = 2, .shared_bytes = ring_memory::bytes};

TEST(sim_async, a_load_is_whole_when_its_phase_completes) {
  const auto from = numbered(6 * ring_memory::words);
  EXPECT_EQ(schedules_with_errors(two_warps,
                                  [&](context& x, int& wrong) { stream<true, true>(x, from, 6, wrong); }),
            0);
}

TEST(sim_async, reading_before_the_phase_completes_shows) {
  const auto from = numbered(2 * ring_memory::words);
  EXPECT_GT(schedules_with_errors(two_warps,
                                  [&](context& x, int& wrong) { stream<false, true>(x, from, 2, wrong); }),
            10);
}

TEST(sim_async, refilling_a_slot_before_it_is_released_shows) {
  const auto from = numbered(4 * ring_memory::words);
  grid g = two_warps;
  g.limits.deadline_ns =
      1000;  // a producer a whole phase ahead leaves the consumer with a parity that comes too late
  int bad = 0;
  for (std::uint64_t seed = 1; seed <= num_schedules; ++seed) {
    int wrong = 0;
    try {
      run(schedule::random, seed, g, [&](context& x) { stream<true, false>(x, from, 4, wrong); });
    } catch (const error& e) {
      wrong += test::says(e.what(), "more arrivals in a phase") ? 1 : 0;  // or overtakes the phase it fills
    }
    bad += wrong > 0 ? 1 : 0;
  }
  EXPECT_GT(bad, 30);
}

/// Each of two warps writes half a slot; warp 0 stores it to global memory.
template <bool Fences, bool FencesFirst = false>
int stores_with_errors() {
  int bad = 0;
  for (std::uint64_t seed = 1; seed <= num_schedules; ++seed) {
    std::vector<std::uint32_t> to(ring_memory::words);
    run(schedule::random, seed, two_warps, [&](context& x) {
      ring_memory m{x};
      if (FencesFirst) x.fence_proxy_async();
      x.block_each(ring_memory::words,
                   [&](int i) { x.write(m.slot[0] + i, static_cast<std::uint32_t>(i) + 1); });
      if (Fences) x.fence_proxy_async();
      x.sync_block();
      if (x.warp() == 0) {
        x.elect([&] {
          x.bulk_store(to.data(), m.slot[0], ring_memory::slot_bytes);
          x.bulk_commit();
        });
      }
    });
    bad += to != numbered(ring_memory::words) ? 1 : 0;
  }
  return bad;
}

TEST(sim_async, the_engine_sees_shared_memory_as_the_proxy_fence_left_it) {
  EXPECT_EQ(stores_with_errors<true>(), 0);
}

TEST(sim_async, a_missing_or_early_proxy_fence_shows) {
  EXPECT_EQ(stores_with_errors<false>(), num_schedules);
  EXPECT_EQ((stores_with_errors<false, true>()), num_schedules);
}

/// Writes 1s, stores them, writes 2s.
template <bool WaitsForRead, bool Commits = true>
int overwrites() {
  int bad = 0;
  for (std::uint64_t seed = 1; seed <= num_schedules; ++seed) {
    std::vector<std::uint32_t> to(ring_memory::words);
    run(schedule::random, seed, {.blocks = 1, .warps = 1, .shared_bytes = ring_memory::bytes},
        [&](context& x) {
          ring_memory m{x};
          for (std::uint32_t value = 1; value <= 2; ++value) {
            x.each(ring_memory::words, [&](int i) { x.write(m.slot[0] + i, value); });
            x.fence_proxy_async();
            if (value == 2) return;
            x.elect([&] {
              x.bulk_store(to.data(), m.slot[0], ring_memory::slot_bytes);
              if (Commits) x.bulk_commit();
            });
            if (WaitsForRead) x.bulk_wait_read();
          }
        });
    bad += to != std::vector<std::uint32_t>(ring_memory::words, 1) ? 1 : 0;
  }
  return bad;
}

TEST(sim_async, the_source_of_a_store_may_be_reused_once_it_was_read) {
  EXPECT_EQ((overwrites<true>()), 0);
}

TEST(sim_async, reusing_the_source_of_a_store_too_early_shows) {
  EXPECT_GT((overwrites<false>()), 5);
  EXPECT_GT((overwrites<true, false>()), 5) << "a wait covers committed stores only";
}

constexpr grid two_blocks{.blocks = 4, .warps = 1, .shared_bytes = 64, .limits = {}, .cluster = 2};

TEST(sim_async, blocks_of_a_cluster_know_their_place) {
  std::vector<int> place(4, -1);
  run(schedule::round_robin, 1, two_blocks, [&](context& x) {
    EXPECT_EQ(x.cluster_blocks(), 2);
    place[static_cast<std::size_t>(x.block())] = x.cluster_block();
  });
  EXPECT_EQ(place, (std::vector<int>{0, 1, 0, 1}));
}

/// The second block of each cluster writes a word of global memory and arrives at the first one's barrier.
TEST(sim_async, an_arrival_at_another_block_publishes_what_came_before_it) {
  const int bad = schedules_with_errors(two_blocks, [&](context& x, int& wrong) {
    static std::uint32_t payload[4];
    auto* ready = reinterpret_cast<mbarrier*>(x.shared());
    x.elect([&] {
      x.write(payload + x.block(), 0u);
      x.mbarrier_init(ready, 1);
      x.fence_mbarrier_init();
    });
    x.sync_cluster();
    if (x.cluster_block() == 1) {
      x.elect([&] {
        x.write(payload + x.block() - 1, 7u);
        x.mbarrier_arrive_at(ready, 0, 1);
      });
    } else if (x.mbarrier_wait<scope::cluster>(ready, parity::even, at_test)) {
      wrong += x.read(payload + x.block()) != 7u;
    }
    x.sync_cluster();
  });
  EXPECT_EQ(bad, 0);
}

TEST(sim_async, who_meets_a_cluster_waits_for_all_of_it) {
  const int bad = schedules_with_errors(two_blocks, [](context& x, int& wrong) {
    static int there[4];
    there[x.block()] = 0;
    x.sync_cluster();
    ++there[x.block()];
    x.meet_cluster();
    for (int block = x.block() / 2 * 2, i = 0; i < 2; ++i) wrong += there[block + i] != there[x.block()];
    x.meet_cluster();
  });
  EXPECT_EQ(bad, 0);
}

TEST(sim_async, leaving_before_a_partner_arrives_is_an_error_that_says_so) {
  const auto leave = [](context& x) {
    auto* ready = reinterpret_cast<mbarrier*>(x.shared());
    x.mbarrier_init(ready, 1);
    x.sync_cluster();
    if (x.cluster_block() == 1) {
      x.mbarrier_init(ready + 1, 1);
      x.mbarrier_wait<scope::block>(ready + 1, parity::odd, at_test);  // lets the other block go first
      for (int i = 0; i < 50; ++i) x.fence<order::acq_rel, scope::system>();
      x.mbarrier_arrive_at(ready, 0, 1);
    }
  };
  int caught = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    try {
      run(schedule::random, seed, {.blocks = 2, .warps = 1, .shared_bytes = 64, .limits = {}, .cluster = 2},
          leave);
    } catch (const error& e) {
      caught += test::says(e.what(), "has ended") ? 1 : 0;
    }
  }
  EXPECT_GT(caught, 10);
}

TEST(sim_async, an_init_that_nobody_ordered_shows) {
  int caught = 0;
  for (std::uint64_t seed = 1; seed <= num_schedules; ++seed) {
    try {
      run(schedule::random, seed, {.blocks = 1, .warps = 2, .shared_bytes = 64}, [](context& x) {
        auto* ready = reinterpret_cast<mbarrier*>(x.shared());
        if (x.warp() == 0) x.mbarrier_init(ready, 1);
        x.mbarrier_wait<scope::block>(ready, parity::odd, at_test);
      });
    } catch (const error& e) {
      caught += test::says(e.what(), "before its init is visible") ? 1 : 0;
    }
  }
  EXPECT_GT(caught, 10);
}

TEST(sim_async, misuse_is_told_with_its_place) {
  const auto fails = [](const std::function<void(context&)>& body) -> std::string {
    try {
      run(schedule::round_robin, 1, {.blocks = 1, .warps = 1, .shared_bytes = 256}, [&](context& x) {
        x.mbarrier_init(reinterpret_cast<mbarrier*>(x.shared()), 1);
        body(x);
      });
    } catch (const error& e) {
      return e.what();
    }
    return "";
  };
  const auto first = [](context& x) { return reinterpret_cast<mbarrier*>(x.shared()); };
  alignas(16) static std::byte global[64];
  EXPECT_EQ(
      fails([&](context& x) { x.mbarrier_arrive(first(x), 2); }),
      "rank 0 block 0 warp 0: mbarrier at shared + 0: more arrivals in a phase than the mbarrier expects");
  EXPECT_NE(
      fails([&](context& x) { x.bulk_load(x.shared() + 24, global, 16, first(x)); }).find("multiples of 16"),
      std::string::npos);
  EXPECT_NE(fails([&](context& x) {
              x.bulk_load(x.shared() + 240, global, 32, first(x));
            }).find("shared memory has 256"),
            std::string::npos);
  EXPECT_NE(fails([&](context& x) {
              x.bulk_load(x.shared() + 64, global, 16, first(x) + 1);
            }).find("16 bytes land on the mbarrier at shared + 8"),
            std::string::npos);
  EXPECT_NE(fails([&](context& x) { x.mbarrier_init(first(x), 0); }).find("arrivals is 0"),
            std::string::npos);
  EXPECT_NE(
      fails([&](context& x) { x.mbarrier_arrive_at(first(x), 1, 1); }).find("block 1 of a cluster of 1"),
      std::string::npos);
  EXPECT_NE(fails([&](context& x) {
              x.write(x.in_block(x.shared(), -1), std::byte{1});
            }).find("in_block: block -1 of a cluster of 1"),
            std::string::npos);
  machine m{1};
  EXPECT_THROW(
      m.launch(0, {.blocks = 3, .warps = 1, .shared_bytes = 0, .limits = {}, .cluster = 2}, [](context&) {}),
      invalid_argument);
}

TEST(sim_async, a_phase_that_never_completes_is_on_record_with_parity_and_barrier) {
  stuck_record record{};
  std::uint32_t abort = 0;
  bool ended = true;
  const grid g{.blocks = 1, .warps = 1, .shared_bytes = 64, .limits = {1000, &abort, &record}};
  run(schedule::round_robin, 1, g, [&](context& x) {
    auto* b = reinterpret_cast<mbarrier*>(x.shared()) + 3;
    x.mbarrier_init(b, 2);
    x.mbarrier_arrive(b, 1);
    ended = x.mbarrier_wait<scope::block>(b, parity::even, {.where = "test", .epoch = 5});
  });
  EXPECT_FALSE(ended);
  EXPECT_EQ(record.complete, 1u);
  EXPECT_EQ(record.where, site{"test"});
  EXPECT_EQ(record.epoch, 5u);
  EXPECT_EQ(record.expected, 0u);
  EXPECT_EQ(record.seen, 24u) << "the barrier's offset";
  EXPECT_EQ(abort, 1u);
}

TEST(sim_async, without_deadline_a_lost_arrival_is_a_deadlock_that_names_the_site) {
  try {
    run(schedule::round_robin, 1, {.blocks = 1, .warps = 1, .shared_bytes = 64, .limits = {.deadline_ns = 0}},
        [&](context& x) {
          auto* b = reinterpret_cast<mbarrier*>(x.shared());
          x.mbarrier_init(b, 1);
          x.mbarrier_wait<scope::block>(b, parity::even, at_test);
        });
    FAIL();
  } catch (const error& e) {
    EXPECT_TRUE(test::says(e.what(), "rank 0 block 0 warp 0: test"));
  }
}

}  // namespace
}  // namespace baton::sim
