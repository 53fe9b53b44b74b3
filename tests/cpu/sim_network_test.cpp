// Puts through the CPU machine's network: what may be put, that it arrives, and that schedules have all that a network may do.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "baton/error.hpp"
#include "sim/context.hpp"
#include "tests/cpu/says.hpp"

namespace baton::sim {
namespace {

struct alignas(16) put_room {
  std::array<std::byte, 64> bytes{};
};

/// Rank 0 puts so many of 64 bytes that count up, from the `from`-th on, to the `to`-th there: what the machine throws.
std::string said_of_a_put(int from, int to, int bytes, put_room& there) {
  put_room here;
  for (std::size_t i = 0; i < here.bytes.size(); ++i) here.bytes[i] = static_cast<std::byte>(i);
  machine m{2, {}};
  m.launch(0, {}, [&](context& x) { x.put(1, there.bytes.data() + to, here.bytes.data() + from, bytes); });
  try {
    m.run(0);
  } catch (const error& e) {
    return e.what();
  }
  return {};
}

TEST(sim_network, whole_vec16s_are_put) {
  put_room there;
  EXPECT_EQ(said_of_a_put(16, 32, 32, there), "");
  for (std::size_t i = 0; i < 64; ++i)
    EXPECT_EQ(there.bytes[i], i < 32 ? std::byte{} : static_cast<std::byte>(i - 16)) << i;
}

/// NVSHMEM would put them; our own stores to a rank of the same host move vec16s.
TEST(sim_network, a_put_that_is_not_of_whole_vec16s_is_refused) {
  put_room there;
  EXPECT_TRUE(test::says(said_of_a_put(8, 0, 16, there), "multiple of 16 bytes"));
  EXPECT_TRUE(test::says(said_of_a_put(0, 8, 16, there), "multiple of 16 bytes"));
  EXPECT_TRUE(test::says(said_of_a_put(0, 0, 24, there), "a put of 24 bytes", "multiple of 16"));
  EXPECT_TRUE(test::says(said_of_a_put(0, 0, -16, there), "a put of -16 bytes"));
  EXPECT_EQ(there.bytes, put_room{}.bytes);
}

/// Of rank 1, but `source`, which is of the rank that puts; and words by which ranks tell each other.
struct far_cells {
  alignas(16) std::array<std::uint64_t, 8> source{1, 1, 1, 1, 1, 1, 1, 1}, target{};
  std::array<std::uint64_t, 3> told{};

  std::byte* source_at(std::size_t i) { return reinterpret_cast<std::byte*>(&source[i]); }
  std::byte* target_at(std::size_t i) { return reinterpret_cast<std::byte*>(&target[i]); }
};

constexpr site at_word = "test";

void await_word(context& x, const std::uint64_t& word) {
  context::lanes<std::uint64_t*> words{};
  context::lanes<std::uint64_t> seen{};
  words[0] = const_cast<std::uint64_t*>(&word);
  x.wait<order::acquire, scope::system>(
      words, [](int, std::uint64_t value) { return value != 0; }, {.where = at_word}, seen);
}
void tell(context& x, std::uint64_t& word, std::uint64_t value = 1) {
  x.elect([&] { x.store<order::release, scope::system>(&word, value); });
}
void tell_behind_puts(context& x, int rank, std::uint64_t& word) {
  x.elect([&] {
    x.fence_puts();
    x.signal(rank, &word, 1);
  });
}

using two_looks = std::pair<std::uint64_t, std::uint64_t>;

/// All that kernels(cells, seen) of three ranks see in 300 schedules.
template <class Kernels>
std::set<two_looks> seen_in_schedules(Kernels kernels) {
  std::set<two_looks> all;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    far_cells cells;
    two_looks seen;
    machine m{3, {.order = schedule::random, .seed = seed, .delay_stores = true, .faults = {}}};
    const std::array<std::function<void(context&)>, 3> of_rank = kernels(cells, seen);
    for (int r = 0; r < 3; ++r)
      if (of_rank[static_cast<std::size_t>(r)]) m.launch(r, {}, of_rank[static_cast<std::size_t>(r)]);
    for (int r = 0; r < 3; ++r) m.run(r);
    all.insert(seen);
  }
  return all;
}
using one_kernel = std::function<void(context&)>;
using three_kernels = std::array<one_kernel, 3>;

/// Sees the first target when it is told first, and this one when it is told again.
one_kernel looking_twice(far_cells& c, two_looks& looks, std::size_t second) {
  return [&c, &looks, second](context& x) {
    await_word(x, c.told[0]);
    looks.first = c.target[0];
    await_word(x, c.told[1]);
    looks.second = c.target[second];
  };
}

/// Rank 0 writes again what it has put, and tells rank 1; then, behind the put, once more.
TEST(sim_network, a_put_is_read_and_written_at_any_time_until_a_word_behind_a_fence) {
  const auto seen = seen_in_schedules([](far_cells& c, two_looks& looks) {
    return three_kernels{[&c](context& x) {
                           x.put(1, c.target_at(0), c.source_at(0), 16);
                           tell(x, c.source[0], 2);
                           tell(x, c.told[0]);
                           tell_behind_puts(x, 1, c.told[1]);
                         },
                         looking_twice(c, looks, 0)};
  });
  EXPECT_EQ(seen, (std::set<two_looks>{{0, 1}, {0, 2}, {1, 1}, {2, 2}}));
}

/// A fence orders how puts arrive, not how they are read.
TEST(sim_network, a_put_behind_a_fence_may_be_read_before_what_is_in_front_of_it_has_arrived) {
  const auto seen = seen_in_schedules([](far_cells& c, two_looks& looks) {
    return three_kernels{[&c](context& x) {
                           x.put(1, c.target_at(0), c.source_at(0), 16);
                           x.elect([&] { x.fence_puts(); });
                           x.put(1, c.target_at(2), c.source_at(2), 16);
                           tell(x, c.source[2], 2);
                           tell(x, c.told[0]);
                           tell_behind_puts(x, 1, c.told[1]);
                         },
                         looking_twice(c, looks, 2)};
  });
  EXPECT_TRUE(seen.contains({0, 1}));
  EXPECT_EQ(seen.size(), 4u);
}

TEST(sim_network, parts_of_a_put_arrive_in_any_order) {
  const auto seen = seen_in_schedules([](far_cells& c, two_looks& looks) {
    return three_kernels{[&c](context& x) {
                           x.put(1, c.target_at(0), c.source_at(0), 64);
                           tell(x, c.told[0]);
                         },
                         [&](context& x) {
                           await_word(x, c.told[0]);
                           looks = {c.target[0], c.target[6]};
                         }};
  });
  EXPECT_EQ(seen, (std::set<two_looks>{{0, 0}, {0, 1}, {1, 0}, {1, 1}}));
}

/// What is put from the i-th word of the source to the same place of rank 1's target, so many bytes, and its word.
signalled_put told_of(far_cells& c, std::size_t i, int bytes, std::uint64_t& word) {
  return {c.target_at(i), c.source_at(i), bytes, {1, &word, 1}};
}

/// Of 64 bytes, whose parts come in any order; and to where a rank that has heard of it looks.
TEST(sim_network, a_word_of_a_put_s_own_arrives_behind_all_of_that_put) {
  const auto seen = seen_in_schedules([](far_cells& c, two_looks& looks) {
    return three_kernels{[&c](context& x) { x.put_and_signal(told_of(c, 0, 64, c.told[0])); },
                         [&](context& x) {
                           await_word(x, c.told[0]);
                           looks = {c.target[0], c.target[7]};
                         }};
  });
  EXPECT_EQ(seen, (std::set<two_looks>{{1, 1}}));
}

/// The last one's comes, with fences between, before what was put before it, with a word or without.
TEST(sim_network, a_word_of_a_put_s_own_is_behind_no_other_put_nor_fence) {
  const auto seen = seen_in_schedules([](far_cells& c, two_looks& looks) {
    return three_kernels{[&c](context& x) {
                           x.put(1, c.target_at(0), c.source_at(0), 16);
                           x.elect([&] { x.fence_puts(); });
                           x.put_and_signal(told_of(c, 2, 16, c.told[1]));
                           x.elect([&] { x.fence_puts(); });
                           x.put_and_signal(told_of(c, 4, 16, c.told[0]));
                         },
                         [&](context& x) {
                           await_word(x, c.told[0]);
                           looks = {c.target[0], c.target[2]};
                         }};
  });
  EXPECT_EQ(seen, (std::set<two_looks>{{0, 0}, {0, 1}, {1, 0}, {1, 1}}));
}

TEST(sim_network, a_fence_holds_nothing_back_for_a_put_with_its_own_word) {
  const auto seen = seen_in_schedules([](far_cells& c, two_looks& looks) {
    return three_kernels{[&c](context& x) {
                           x.put_and_signal(told_of(c, 0, 16, c.told[1]));
                           tell_behind_puts(x, 1, c.told[0]);
                         },
                         looking_twice(c, looks, 0)};
  });
  EXPECT_EQ(seen, (std::set<two_looks>{{0, 1}, {1, 1}}));
}

TEST(sim_network, puts_with_their_own_words_are_those_of_the_lanes_asked_for) {
  far_cells c;
  machine m{2, {}};
  m.launch(0, {}, [&](context& x) {
    x.put_and_signal(0b10100u, [&](int lane) {
      return told_of(c, static_cast<std::size_t>(lane), 16, c.told[lane == 2 ? 0 : 1]);
    });
  });
  m.run(0);
  EXPECT_EQ(c.target, (std::array<std::uint64_t, 8>{0, 0, 1, 1, 1, 1, 0, 0}));
  EXPECT_EQ(c.told, (std::array<std::uint64_t, 3>{1, 1, 0}));
  EXPECT_EQ(m.sent_through_network(0, 1).puts, 2u);
  EXPECT_EQ(m.sent_through_network(0, 1).signals, 2u);
}

/// It is what was there when the network read it: rank 0 writes again meanwhile.
TEST(sim_network, a_put_with_its_own_word_is_read_at_any_time_until_that_arrives) {
  const auto seen = seen_in_schedules([](far_cells& c, two_looks& looks) {
    return three_kernels{[&c](context& x) {
                           x.put_and_signal(told_of(c, 0, 16, c.told[0]));
                           tell(x, c.source[0], 2);
                           tell(x, c.told[1]);
                         },
                         looking_twice(c, looks, 0)};
  });
  EXPECT_EQ(seen, (std::set<two_looks>{{1, 1}, {2, 2}}));
}

TEST(sim_network, a_put_with_its_own_word_is_refused_as_any_put_is) {
  far_cells c;
  machine m{2, {}};
  m.launch(0, {}, [&](context& x) { x.put_and_signal(told_of(c, 0, 24, c.told[0])); });
  std::string said;
  try {
    m.run(0);
  } catch (const error& e) {
    said = e.what();
  }
  EXPECT_TRUE(test::says(said, "a put of 24 bytes"));
  EXPECT_EQ(c.told[0], 0u);
}

/// Rank 2 hears of rank 0's fence, and tells rank 1.
TEST(sim_network, a_fence_holds_nothing_back_that_is_for_another_rank) {
  const auto seen = seen_in_schedules([](far_cells& c, two_looks& looks) {
    return three_kernels{[&c](context& x) {
                           x.put(1, c.target_at(0), c.source_at(0), 16);
                           tell_behind_puts(x, 2, c.told[2]);
                         },
                         [&](context& x) {
                           await_word(x, c.told[1]);
                           looks.first = c.target[0];
                         },
                         [&c](context& x) {
                           await_word(x, c.told[2]);
                           tell(x, c.told[1]);
                         }};
  });
  EXPECT_EQ(seen, (std::set<two_looks>{{0, 0}, {1, 0}}));
}

/// Rank 0 fences when it has heard that rank 2 has put.
TEST(sim_network, a_fence_is_for_no_other_rank_s_puts) {
  const auto seen = seen_in_schedules([](far_cells& c, two_looks& looks) {
    return three_kernels{[&c](context& x) {
                           await_word(x, c.told[0]);
                           tell_behind_puts(x, 1, c.told[1]);
                         },
                         [&](context& x) {
                           await_word(x, c.told[1]);
                           looks.first = c.target[0];
                         },
                         [&c](context& x) {
                           x.put(1, c.target_at(0), c.source_at(0), 16);
                           tell(x, c.told[0]);
                         }};
  });
  EXPECT_EQ(seen, (std::set<two_looks>{{0, 0}, {1, 0}}));
}

/// What a warp has written before its block met is older than what another one puts from there, and to there.
TEST(sim_network, writes_of_a_block_that_has_met_are_put_and_do_not_come_after_what_was) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    far_cells c;
    machine m{2, {.order = schedule::random, .seed = seed, .delay_stores = true, .faults = {}}};
    m.launch(0, {.warps = 2}, [&](context& x) {
      if (x.warp() == 1)
        x.elect([&] {
          x.write(&c.source[0], std::uint64_t{5});
          x.write(&c.target[0], std::uint64_t{7});
        });
      x.sync_block();
      if (x.warp() == 0) {
        x.put(1, c.target_at(0), c.source_at(0), 16);
        tell_behind_puts(x, 1, c.told[1]);
      }
    });
    std::uint64_t seen = 0;
    m.launch(1, {}, [&](context& x) {
      await_word(x, c.told[1]);
      seen = c.target[0];
    });
    m.run(0);
    m.run(1);
    EXPECT_EQ(seen, 5u) << seed;
    EXPECT_EQ(c.target[0], 5u) << seed;
  }
}

TEST(sim_network, what_is_put_to_or_by_a_rank_that_is_cut_off_is_lost) {
  far_cells c;
  options cut;
  cut.faults = {{fault::kind::is_cut_off, 1}};
  machine m{3, cut};
  m.launch(0, {}, [&](context& x) {
    x.put(1, c.target_at(0), c.source_at(0), 16);
    x.put(2, c.target_at(2), c.source_at(0), 16);
  });
  m.launch(1, {}, [&](context& x) { x.put(2, c.target_at(4), c.source_at(0), 16); });
  m.run(0);
  m.run(1);
  EXPECT_EQ(c.target, (std::array<std::uint64_t, 8>{0, 0, 1, 1, 0, 0, 0, 0}));
}

TEST(sim_network, a_word_is_damaged_as_a_store_may_be) {
  const std::array<std::function<void(context&, far_cells&)>, 2> ways{
      [](context& x, far_cells& c) { x.elect([&] { x.signal(1, &c.told[1], 1); }); },
      [](context& x, far_cells& c) { x.put_and_signal(told_of(c, 0, 16, c.told[1])); }};
  for (const auto& sends : ways) {
    far_cells c;
    options damaged;
    damaged.faults = {{.what = fault::kind::flips_bit,
                       .rank = 0,
                       .word_begin = &c.told[1],
                       .word_end = &c.told[2],
                       .mask = 4}};
    machine m{2, damaged};
    m.launch(0, {}, [&](context& x) { sends(x, c); });
    m.run(0);
    EXPECT_EQ(c.told[1], 5u);
  }
}

/// Rank 0's memory may go with what it had enqueued: nothing is read there any more. What it was sent comes.
TEST(sim_network, what_a_rank_has_put_goes_with_its_work_and_what_is_for_it_comes) {
  int under_way = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    far_cells c;
    machine m{2, {.order = schedule::random, .seed = seed, .delay_stores = true, .faults = {}}};
    m.launch(0, {}, [&](context& x) { x.put(1, c.target_at(0), c.source_at(0), 16); });
    m.run(0);
    m.launch(1, {}, [&](context& x) { x.put(0, c.target_at(4), c.source_at(4), 16); });
    m.run(1);
    const std::uint64_t before = c.target[0];
    m.abandon(0);
    m.release(nullptr);  // all that is under way arrives
    EXPECT_EQ(c.target[0], before) << seed;
    EXPECT_EQ(c.target[4], 1u) << seed;
    under_way += before == 0 ? 1 : 0;
  }
  EXPECT_GT(under_way, 0);
}

}  // namespace
}  // namespace baton::sim
