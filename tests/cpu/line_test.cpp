// What tells a line of this round from any other.
#include "protocol/line.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "sim/context.hpp"

namespace baton {
namespace {

constexpr int flag_lane = lanes_of_line - 1;

TEST(line, a_flag_with_one_bit_flipped_has_not_arrived_and_is_of_no_round_near) {
  for (const std::uint64_t epoch :
       {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{1} << 32, ~std::uint64_t{0}}) {
    const std::uint64_t flag = line_flag(epoch);
    EXPECT_TRUE(carries(flag_lane, with_flag(5, 6, flag), flag));
    for (int bit = 0; bit < 64; ++bit) {
      const std::uint64_t flipped = flag ^ std::uint64_t{1} << bit;
      EXPECT_FALSE(carries(flag_lane, with_flag(5, 6, flipped), flag)) << "bit " << bit;
      for (std::uint64_t n = 1; n <= 1000; ++n) {
        ASSERT_NE(flipped, line_flag(epoch + n));
        ASSERT_NE(flipped, line_flag(epoch - n));
      }
    }
  }
}

TEST(line, memory_of_zeros_is_of_no_round_that_there_is) {
  EXPECT_FALSE(carries(flag_lane, vec16{}, line_flag(1)));
  EXPECT_EQ(line_flag(0), 0u) << "before the first";
}

/// Ranks in processes of their own have a machine each, and nothing but the line between them.
TEST(line, of_the_cpu_is_there_when_its_flag_is_for_another_machine_too) {
  using lanes = sim::context::lanes<vec16>;
  alignas(line_bytes) std::byte cell[line_access_bytes] = {};
  std::atomic<bool> is_over = false;
  std::thread writer{[&] {
    sim::machine machine{1};
    machine.launch(0, {}, [&](sim::context& x) {
      for (std::uint32_t round = 1; !is_over; ++round) {
        lanes v;
        x.each_lane([&](int lane) { v[lane] = {{round, round, round, round}}; });
        x.store_lines(cell, v);
      }
    });
    machine.run(0);
  }};
  std::uint32_t torn = 0, changes = 0;
  sim::machine machine{1};
  machine.launch(0, {}, [&](sim::context& x) {
    using clock = std::chrono::steady_clock;
    const auto began = clock::now();
    const auto goes_on = [&] {  // however busy the machine is
      const auto so_far = clock::now() - began;
      return changes < 20'000 &&
             so_far < (changes == 0 ? std::chrono::seconds{20} : std::chrono::milliseconds{300});
    };
    for (std::uint32_t flag = 0; goes_on();) {
      const lanes v = x.load_lines(cell);
      for (int lane = 0; lane < warp_lanes; ++lane) {
        const std::uint32_t of_line = v[lane | flag_lane].word[3];
        for (const std::uint32_t word : v[lane].word) torn += word < of_line ? 1 : 0;
      }
      changes += v[warp_lanes - 1].word[3] != flag ? 1 : 0;
      flag = v[warp_lanes - 1].word[3];
    }
  });
  machine.run(0);
  is_over = true;
  writer.join();
  EXPECT_EQ(torn, 0u) << "of lines that changed " << changes << " times before the reader's eyes";
  EXPECT_GT(changes, 0u);
}

TEST(line, lanes_without_a_flag_have_nothing_against_its_arrival) {
  int flags = 0;
  for (int lane = 0; lane < warp_lanes; ++lane) {
    flags += holds_flag(lane) ? 1 : 0;
    EXPECT_EQ(carries(lane, vec16{}, line_flag(1)), !holds_flag(lane));
  }
  EXPECT_EQ(flags, lines_of_access);
}

}  // namespace
}  // namespace baton
