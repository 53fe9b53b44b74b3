// The look for torn lines: what it takes for torn, that it finds lines that tear, and that whole ones are none.
#include <gtest/gtest.h>

#include "checks/planted_context.hpp"
#include "kernels/launch.hpp"
#include "kernels/torn_lines/look.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/simulated_worlds.hpp"

namespace baton::torn_lines {
namespace {

using checks::change;
using checks::planted_bug;
using checks::verbs;

/// What one lane stores in a round.
vec16 of_round(int lane, std::uint64_t round) {
  return words_of(lane, line_flag(round));
}

TEST(torn_lines, half_of_a_lanes_bytes_of_another_round_or_of_another_place_is_seen) {
  for (int lane = 0; lane < warp_lanes; ++lane) {
    const vec16 whole = of_round(lane, 7);
    EXPECT_TRUE(are_same(whole, of_round(lane, 7)));
    for (const std::uint64_t other : {0u, 6u, 8u, 3000u})
      for (int half = 0; half < 2; ++half) {
        vec16 mixed = whole;
        for (int word = 2 * half; word < 2 * half + 2; ++word)
          mixed.word[word] = of_round(lane, other).word[word];
        EXPECT_FALSE(are_same(mixed, whole)) << "lane " << lane << ", half " << half << ", round " << other;
      }
    for (int place = 0; place < lane; ++place)
      if (holds_flag(place) != holds_flag(lane) || !holds_flag(lane))
        EXPECT_FALSE(are_same(of_round(place, 7), whole)) << "lanes " << place << " and " << lane;
  }
}

TEST(torn_lines, a_flag_is_that_of_lines_which_the_exchange_sends) {
  for (int lane = 0; lane < warp_lanes; ++lane)
    EXPECT_EQ(carries(lane, of_round(lane, 5), line_flag(5)), true) << lane;
  EXPECT_FALSE(carries(lanes_of_line - 1, of_round(lanes_of_line - 1, 4), line_flag(5)));
}

/// The kernel with a bug of one rank's stores.
template <int Rank>
struct tearing {
  static void run(sim::context& base, const params& p) {
    checks::planted<sim::context> x{base, {.what = verbs::store_lines, .how = change::torn, .rank = Rank}};
    kernel::run(x, p);
  }
};
using tearing_kernel = tearing<1>;

template <class Kernel>
std::vector<found> look_at(int ranks, std::uint64_t seed, const effort& asked = {}, int p2p_group_size = 0) {
  const auto worlds = test::simulated_worlds(
      ranks, {.order = sim::schedule::random, .seed = seed, .delay_stores = seed % 2 == 0});
  std::vector<std::vector<found>> told(worlds.size());
  on_every_rank(worlds, [&](int r) {
    const world& w = worlds[static_cast<std::size_t>(r)];
    told[static_cast<std::size_t>(r)] = look_with(
        w, asked, [&w](const launch_grid& g, const params& p) { launch_on_cpu<Kernel>(w, g, p, {}); },
        p2p_group_size);
  });
  for (const auto& all : told)
    for (std::size_t r = 0; r < all.size(); ++r) EXPECT_EQ(all[r].torn, told[0][r].torn) << "told to all";
  return told[0];
}

TEST(torn_lines, whole_lines_are_seen_whole_while_they_are_written_in_any_schedule) {
  std::uint64_t moving = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const std::vector<found> all = look_at<kernel>(1 + static_cast<int>(seed % 3), seed);
    EXPECT_EQ(what_tore(all), "");
    for (const found& f : all) {
      EXPECT_GT(f.lines, 0u);
      moving += f.moving;
    }
  }
  EXPECT_GT(moving, 1000u) << "looked at while they changed";
}

TEST(torn_lines, planted_lines_that_tear_are_found_and_so_is_who_wrote_them) {
  int noticed = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const std::vector<found> all = look_at<tearing_kernel>(3, seed, {.rounds = 40});
    bool seen = false;
    for (const found& f : all) {
      seen |= f.torn > 0;
      EXPECT_EQ(f.writers, f.torn > 0 ? 2u : 0u) << "rank 1 alone tears";
    }
    noticed += seen ? 1 : 0;
    if (seen) EXPECT_TRUE(test::says(what_tore(all), "lines in part, of rank 1"));
  }
  EXPECT_EQ(noticed, 20);
}

TEST(torn_lines, within_p2p_groups_a_rank_looks_at_those_whom_stores_reach) {
  const std::vector<found> all = look_at<tearing<3>>(5, 3, {.rounds = 40}, 2);  // ranks 0 1, 2 3, and 4
  EXPECT_GT(all[2].torn + all[3].torn, 0u);
  for (int r = 0; r < 5; ++r) {
    const found& f = all.at(static_cast<std::size_t>(r));
    EXPECT_GT(f.lines, 0u) << "rank " << r << ": its own at least";
    EXPECT_EQ(f.writers, f.torn > 0 ? 8u : 0u) << "rank 3 alone tears";
    if (r / 2 != 1) EXPECT_EQ(f.torn, 0u) << "rank " << r << " is not of rank 3's group";
  }
}

TEST(torn_lines, more_ranks_than_a_p2p_group_has_are_refused) {
  EXPECT_TRUE(test::says(test::message_of<unsupported>([] { look_at<tearing_kernel>(9, 1); }),
                         "9 ranks in one p2p group", "up to 8"));
}

TEST(torn_lines, what_tore_is_told_by_reader_and_writers) {
  EXPECT_EQ(what_tore({{.lines = 100}, {.lines = 100}}), "");
  EXPECT_EQ(what_tore({{.lines = 100}, {.lines = 90, .torn = 2, .writers = 5}, {.lines = 80}}),
            "rank 1 saw 2 of 90 lines in part, of rank 0, 2");
}

}  // namespace
}  // namespace baton::torn_lines
