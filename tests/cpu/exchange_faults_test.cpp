// Ranks that are lost, and words that are damaged: survivors return, and say who was missing where.
#include <tuple>

#include "baton/error.hpp"
#include "runtime/stuck_report.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/exchange_cases.hpp"
#include "tests/support/simulated_worlds.hpp"
#include "tests/support/stuck_rounds.hpp"

namespace baton::test {
namespace {

class exchange_faults_by : public testing::TestWithParam<travel> {};
INSTANTIATE_TEST_SUITE_P(cpu, exchange_faults_by, testing::ValuesIn(every_travel),
                         [](const auto& how) { return name(how.param); });

TEST_P(exchange_faults_by, a_rank_that_never_launches_is_named_by_every_survivor) {
  const exchange_case c = travelling(GetParam(), case_of_eight_experts(4));
  sim::options options;
  options.faults = {{sim::fault::kind::never_launches, 2}};
  auto ranks = make_ranks(simulated_worlds(4, options), c.config);
  const auto found = run_until_stuck(ranks, c);
  for (int r = 0; r < 4; ++r) {
    if (r == 2) continue;
    const stuck::details& d = found[static_cast<std::size_t>(r)];
    EXPECT_EQ(d.peer, 2);
    EXPECT_EQ(d.rank, r);
    EXPECT_EQ(d.site, c.config.layout == ep_layout::per_rank ? "dispatch.ids" : "dispatch.arrival");
    EXPECT_EQ(d.epoch, 1u);
    EXPECT_GE(d.waited_ns, 30'000'000'000u);
  }
}

/// How the two survivors of three ranks fared, over all steps at which rank 1 died.
struct survivors {
  int stuck = 0, unharmed = 0;
};

survivors of_a_rank_that_dies_at_any_of(std::uint64_t steps, const exchange_case& c) {
  survivors all;
  for (std::uint64_t step = 0; step < steps; ++step) {
    sim::options options;
    options.order = sim::schedule::random;
    options.seed = step + 1;
    options.delay_stores = true;
    options.faults = {{sim::fault::kind::dies_at_step, 1, step}};
    auto ranks = make_ranks(simulated_worlds(3, options), c.config);
    const auto found = run_until_stuck(ranks, c);
    for (const std::size_t survivor : {0, 2}) {
      int peer = found[survivor].peer;
      // Tokens may be complete at one survivor and not at the other, which then sends no sums: who it names is to blame.
      if (c.config.layout == ep_layout::per_rank && (peer == 0 || peer == 2))
        peer = found[static_cast<std::size_t>(peer)].peer;
      EXPECT_TRUE(peer == 1 || peer == -2)
          << "step " << step << ": rank " << survivor << " blames " << peer << " at " << found[survivor].site;
      ++(peer == 1 ? all.stuck : all.unharmed);
    }
  }
  return all;
}

TEST(exchange_faults, a_rank_that_dies_at_any_step_leaves_survivors_that_return) {
  const survivors all = of_a_rank_that_dies_at_any_of(120, case_of_eight_experts(3));
  EXPECT_GT(all.stuck, 0);
  EXPECT_GT(all.unharmed, 0);
}

TEST(exchange_faults, a_rank_of_per_rank_that_dies_at_any_step_is_the_only_one_that_survivors_name) {
  exchange_case c = case_of_eight_experts(3);
  c.config.layout = ep_layout::per_rank;
  for (const ep_transfer transfer : every_transfer) {
    c.config.transfer = transfer;
    EXPECT_GT(of_a_rank_that_dies_at_any_of(60, c).stuck, 0);
  }
}

TEST(exchange_faults, a_word_with_a_flipped_bit_is_reported_and_never_believed) {
  exchange_case c = case_of_eight_experts(2);
  c.config.transfer = ep_transfer::chunks;  // should the layout be per_rank
  for (int bit = 0; bit < 128; ++bit) {
    c.config.layout = bit < 64 ? ep_layout::per_expert : ep_layout::per_rank;
    sim::options options;
    options.faults = {{sim::fault::kind::flips_bit, 1}};
    sim::fault& fault = options.faults[0];
    fault.mask = std::uint64_t{1} << bit % 64;
    // The words do not exist yet: aim everywhere. The first flag that rank 1 stores for others is an arrival word.
    fault.word_end = reinterpret_cast<const void*>(~std::uintptr_t{0});
    auto ranks = make_ranks(simulated_worlds(2, options), c.config);
    const auto found = run_until_stuck(ranks, c);
    const bool reported =
        found[0].peer == 1 || found[1].peer == 1 || found[0].peer == 0 || found[1].peer == 0;
    EXPECT_TRUE(reported) << "bit " << bit;
  }
}

TEST_P(exchange_faults_by, after_a_time_out_only_a_new_communicator_goes_on_and_is_right) {
  for (const arrival_policy policy : {arrival_policy::epoch, arrival_policy::sentinel}) {
    exchange_case c = travelling(GetParam(), case_of_eight_experts(2));
    c.config.arrival = policy;
    const auto worlds = simulated_worlds(2, {});
    auto ranks = make_ranks(worlds, c.config);
    const auto inputs = draw_inputs(c, 1);
    const auto first_half = [&](int r) {
      exchange_rank& rank = ranks[static_cast<std::size_t>(r)];
      rank.load(inputs[static_cast<std::size_t>(r)]);
      rank.dispatch_async();
      rank.dispatch_wait();
      rank.ranks().synchronize();
    };
    EXPECT_THROW(first_half(0), stuck) << "rank 1 has not come yet";
    EXPECT_NO_THROW(first_half(1)) << "rank 0 had sent what rank 1 waits for";
    try {
      ranks[0].combine_async(static_cast<const bfloat16*>(ranks[0].received().tokens));
      FAIL() << "went on in the old memory";
    } catch (const invalid_argument& e) {
      const std::string ends =
          c.config.layout == ep_layout::per_rank ? "; or call set_members on the ranks that go on" : "";
      EXPECT_EQ(
          e.what(),
          "combine_async called after work of rank 0 was lost: a wait gave up, or an exception "
          "ended it. This communicator is of no further use. Destroy it and create one anew, on every rank" +
              ends);
    }
    ranks = make_ranks(worlds, c.config);
    for (std::uint64_t seed = 1; seed <= 3; ++seed) EXPECT_EQ(run_round(c, ranks, seed), "");
  }
}

/// NVSHMEM has one set of processes: where one has ended, those that live on cannot make another communicator of theirs.
TEST(exchange_faults, what_is_said_to_do_after_a_loss_can_be_done) {
  const std::string anew = "Destroy it and create one anew, on every rank";
  EXPECT_EQ(way_on(false, false), anew);
  EXPECT_EQ(way_on(true, false), anew + "; or call set_members on the ranks that go on");
  EXPECT_EQ(way_on(false, true),
            anew +
                ", if the processes of all live; if one has ended, start all of them anew: "
                "NVSHMEM has one set of processes, for their lives");
}

TEST(exchange_faults, ranks_beyond_the_group_are_not_told_of_members_that_cannot_be_set) {
  exchange_case c = case_of_eight_experts(2);
  c.config.layout = ep_layout::per_rank;
  c.config.p2p_group_size = 1;
  auto ranks = make_ranks(simulated_worlds(2, {}), c.config);
  ranks[0].load(draw_inputs(c, 1)[0]);
  ranks[0].dispatch_async();
  ranks[0].dispatch_wait();
  EXPECT_THROW(ranks[0].ranks().synchronize(), stuck) << "rank 1 has not come yet";
  const std::string told = message_of<invalid_argument>([&] { ranks[0].dispatch_async(); });
  EXPECT_TRUE(says(told, "of no further use. Destroy it and create one anew, on every rank"));
  EXPECT_FALSE(says(told, "set_members"));
  EXPECT_THROW(ranks[0].ep().set_members({1, 0b01}), invalid_argument);
}

/// A layout, and 4 ranks in groups of so many, 0 for all; two levels where there are several groups of several ranks.
class exchange_bad_ids : public testing::TestWithParam<std::tuple<ep_layout, int>> {};

TEST_P(exchange_bad_ids, are_reported_with_the_first_token_and_value) {
  const auto [layout, group] = GetParam();
  const auto worlds = world::local(4, device_kind::cpu);
  exchange_case c = case_of_eight_experts(4);
  c.config.layout = layout;
  c.config.p2p_group_size = group;
  if (layout == ep_layout::per_rank && group == 2) c.config.levels = ep_levels::two;
  auto ranks = make_ranks(worlds, c.config);
  auto inputs = draw_inputs(c, 3);
  inputs[1].topk_idx[2 * 4 + 1] = 8;
  inputs[1].topk_idx[2 * 5] = -7;
  for (std::size_t r = 0; r < 4; ++r) ranks[r].load(inputs[r]);
  for (auto& r : ranks) r.dispatch_async();
  for (auto& r : ranks) r.dispatch_wait();
  for (int r = 0; r < 4; ++r)
    EXPECT_EQ(difference({c, inputs}, r, ranks[static_cast<std::size_t>(r)].read_received()), "");
  EXPECT_NO_THROW(ranks[0].ep().check());
  try {
    ranks[1].ep().check();
    FAIL() << "not reported";
  } catch (const device_error& e) {
    EXPECT_STREQ(e.what(), "topk_idx: rank 1, token 4, choice 1 is 8, outside [-1, 8); it was treated as -1");
  }
  EXPECT_NO_THROW(ranks[1].ep().check()) << "reported once";
}

INSTANTIATE_TEST_SUITE_P(cpu, exchange_bad_ids,
                         testing::Combine(testing::Values(ep_layout::per_expert, ep_layout::per_rank),
                                          testing::Values(0, 1, 2)));

TEST(exchange_faults, whichever_warp_gives_up_first_names_the_rank_that_it_waits_for) {
  // 48 pairs of 3 ranks: the second warp begins at pair 32, which is rank 2's.
  const exchange_case c{3, sizes(48, 2, 8, 2), {2, 2, 2}, routing::distinct};
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    sim::options options;
    options.order = sim::schedule::random;
    options.seed = seed;
    options.faults = {{sim::fault::kind::never_launches, 1}};
    auto ranks = make_ranks(simulated_worlds(3, options), c.config);
    const auto found = run_until_stuck(ranks, c);
    EXPECT_EQ(found[0].peer, 1) << "seed " << seed;
    EXPECT_EQ(found[2].peer, 1) << "seed " << seed;
  }
}

}  // namespace
}  // namespace baton::test
