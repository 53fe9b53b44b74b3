// The mbarrier as transitions of a word: what completes a phase, what parity says, what is a fault.
#include "sim/mbarrier_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace baton::sim {
namespace {

using state = mbarrier_state;

static_assert(!initialised(1).completed(parity::even) && initialised(1).completed(parity::odd),
              "the phase before the first counts as complete and odd");
static_assert(arrive(initialised(1)).completed(parity::even));
static_assert(!arrive(initialised(2)).completed(parity::even));
static_assert(!state::of(0).completed(parity::odd), "an uninitialised barrier completes nothing");

TEST(mbarrier_model, a_phase_completes_with_its_last_arrival_and_the_next_one_expects_as_many) {
  state s = initialised(3);
  s = arrive(s, 2);
  EXPECT_FALSE(s.completed(parity::even));
  s = arrive(s);
  EXPECT_TRUE(s.completed(parity::even));
  EXPECT_FALSE(s.completed(parity::odd));
  EXPECT_EQ(s.pending, 3);
  s = arrive(s, 3);
  EXPECT_TRUE(s.completed(parity::odd));
  EXPECT_FALSE(s.completed(parity::even)) << "parity tells a phase only from its neighbours";
}

TEST(mbarrier_model, bytes_hold_a_phase_open) {
  state s = arrive_expect(initialised(1), 96);
  EXPECT_EQ(s.pending, 0);
  s = complete(s, 32);
  EXPECT_FALSE(s.completed(parity::even));
  s = complete(s, 64);
  EXPECT_TRUE(s.completed(parity::even));
  EXPECT_EQ(s.bytes, 0);
}

TEST(mbarrier_model, bytes_may_land_before_they_are_expected) {
  state s = complete(initialised(1), 48);
  EXPECT_EQ(s.bytes, -48);
  s = arrive_expect(s, 64);
  EXPECT_FALSE(s.completed(parity::even));
  EXPECT_TRUE(complete(s, 16).completed(parity::even));
}

TEST(mbarrier_model, expecting_alone_does_not_complete) {
  const state s = expect(complete(initialised(1), 16), 16);
  EXPECT_EQ(s.bytes, 0);
  EXPECT_FALSE(s.completed(parity::even));
  EXPECT_TRUE(arrive(s).completed(parity::even));
}

TEST(mbarrier_model, what_hardware_leaves_undefined_is_a_fault_that_stays) {
  EXPECT_EQ(arrive(state{}).fault, mbarrier_fault::not_initialised);
  EXPECT_EQ(complete(state{}, 16).fault, mbarrier_fault::not_initialised);
  EXPECT_EQ(arrive(initialised(2), 3).fault, mbarrier_fault::too_many_arrivals);
  EXPECT_EQ(arrive(arrive_expect(initialised(1), 16)).fault, mbarrier_fault::too_many_arrivals);
  EXPECT_EQ(expect(initialised(1), 1 << 20).fault, mbarrier_fault::bytes_out_of_range);
  EXPECT_EQ(initialised(0).expected, 0);
  EXPECT_EQ(initialised(1 << 20).expected, 0);
  const state broken = arrive(initialised(2), 3);
  EXPECT_EQ(arrive(broken), broken);
  EXPECT_EQ(complete(broken, 16), broken);
  EXPECT_FALSE(broken.completed(parity::even) || broken.completed(parity::odd));
  for (const auto f : {mbarrier_fault::not_initialised, mbarrier_fault::too_many_arrivals,
                       mbarrier_fault::bytes_out_of_range})
    EXPECT_STRNE(name(f), "none");
}

TEST(mbarrier_model, every_state_survives_its_word) {
  std::mt19937_64 random{7};
  const auto up_to = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most + 1));
  };
  for (int i = 0; i < 10000; ++i) {
    state s;
    s.phase = random() % 2;
    s.expected = 1 + up_to(state::most - 1);
    s.pending = up_to(s.expected);
    s.bytes = up_to(2 * state::most) - state::most;
    s.fault = static_cast<mbarrier_fault>(random() % 4);
    EXPECT_EQ(state::of(s.word()), s);
  }
  EXPECT_EQ(state::of(0), state{});
}

TEST(mbarrier_model, any_order_of_a_phases_events_completes_it_once) {
  std::mt19937 random{3};
  for (int round = 0; round < 200; ++round) {
    // Three arrivals, one of which expects 64 bytes that land in four pieces.
    std::vector<int> events{0, 1, 2, 3, 4, 5, 6};
    std::shuffle(events.begin(), events.end(), random);
    state s = initialised(3);
    for (std::size_t i = 0; i < events.size(); ++i) {
      EXPECT_EQ(s.phase, 0u);
      if (events[i] < 2) s = arrive(s);
      if (events[i] == 2) s = arrive_expect(s, 64);
      if (events[i] > 2) s = complete(s, 16);
    }
    EXPECT_EQ(s, (state{1, 3, 3, 0, mbarrier_fault::none}));
  }
}

}  // namespace
}  // namespace baton::sim
