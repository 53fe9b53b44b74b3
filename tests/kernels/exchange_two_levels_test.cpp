// Two levels beyond the p2p group: a token is put once to each other group, forwarded there, and comes back as one sum.
#include <algorithm>
#include <cmath>
#include <map>

#include "baton/error.hpp"
#include "kernels/ep/per_rank_chunks/cells.hpp"
#include "tests/support/exchange_cases.hpp"
#include "tests/support/exchange_in_groups.hpp"
#include "tests/support/exchange_processes.hpp"
#include "tests/support/simulated_worlds.hpp"
#include "tests/support/stuck_rounds.hpp"

namespace baton::test {
namespace {

exchange_case forwarded_in_groups_of(int size, const exchange_case& c, ep_rows rows = ep_rows::by_expert) {
  exchange_case all = c;
  all.config.layout = ep_layout::per_rank;
  all.config.rows = rows;
  all.config.p2p_group_size = size;
  all.config.levels = ep_levels::two;
  return all;
}
exchange_case put_to_each_rank(exchange_case c) {
  c.config.levels = ep_levels::one;
  return c;
}

struct grouping {
  int ranks, group;
};

TEST(exchange_two_levels, rounds_are_right_in_every_case) {
  for (const auto& [ranks, group] : std::vector<grouping>{{3, 1}, {4, 2}, {6, 3}, {8, 2}}) {
    const auto worlds = world::local(ranks, device_kind::cpu);
    for (const named_case& c : conformance_cases(ranks)) {
      SCOPED_TRACE(fmt::format("{}, {} ranks, groups of {}", c.name, ranks, group));
      expect_both_orders_are_right(worlds, forwarded_in_groups_of(group, c.what), 2, 1);
    }
  }
}

TEST(exchange_two_levels, every_format_travels_out_and_back) {
  const auto worlds = world::local(4, device_kind::cpu);
  for (const token_format format : {token_format::bf16, token_format::blockwise_fp8, token_format::mxfp8,
                                    token_format::mxfp4, token_format::nvfp4})
    for (const token_format back : {token_format::bf16, token_format::blockwise_fp8})
      for (const int group : {1, 2}) {
        exchange_case c{4, sizes(8, 4, 640, 6), {6, 6, 6, 6}, routing::distinct};
        c = forwarded_in_groups_of(group, with(c, format, arrival_policy::epoch));
        c.config.combine_format = back;
        auto ranks = make_ranks(worlds, c.config);
        for (std::uint64_t seed = 1; seed <= 3; ++seed)
          EXPECT_EQ(run_round(c, ranks, seed, seed == 1 ? calls::fused : calls::apart), "")
              << name(format) << ", back in " << name(back) << ", groups of " << group;
      }
}

/// The sums of shared experts, and outputs of bf16, are of the rank that has the token.
TEST(exchange_two_levels, shared_experts_and_bf16_outputs_are_added_where_the_token_is) {
  exchange_case c{4, sizes(8, 4, 264, 9), {9, 2, 0, 5}, routing::sparse};
  c = forwarded_in_groups_of(2, c);
  c.shared_experts = c.bf16_output = true;
  for (const exchange_case& what : {c, put_to_each_rank(c)}) {
    auto ranks = make_ranks(world::local(4, device_kind::cpu), what.config);
    for (auto& r : ranks) r.options.bf16_output = true;
    for (const calls how : {calls::fused, calls::apart}) EXPECT_EQ(run_round(what, ranks, 1, how), "");
  }
}

TEST(exchange_two_levels, in_one_group_they_are_one) {
  const exchange_case c{4, sizes(13, 5, 264, 17), {3, 8, 0, 17}, routing::sparse};
  for (const int group : {0, 4}) {
    const exchange_case two = forwarded_in_groups_of(group, c);
    EXPECT_EQ(transfer_of(two.config, 4), ep_transfer::lines);
    EXPECT_EQ(workspace_bytes(two.config, 4).total(),
              workspace_bytes(put_to_each_rank(two).config, 4).total());
    EXPECT_EQ(outputs_of(two), outputs_of(put_to_each_rank(two)));
  }
}

/// Who would forward to itself alone does not.
TEST(exchange_two_levels, in_groups_of_one_rank_they_are_one) {
  const exchange_case c{4, sizes(13, 5, 264, 17), {3, 8, 0, 17}, routing::sparse};
  const exchange_case two = forwarded_in_groups_of(1, c);
  EXPECT_EQ(why_not(two.config, 4), "");
  EXPECT_EQ(workspace_bytes(two.config, 4).window, workspace_bytes(put_to_each_rank(two).config, 4).window);
  EXPECT_EQ(workspace_bytes(two.config, 4).local, workspace_bytes(put_to_each_rank(two).config, 4).local);
  EXPECT_EQ(outputs_of(two), outputs_of(put_to_each_rank(two)));
}

/// A part of another rank is rounded once, to 8 bits, within u = 2^-8 of it; the sum of a group once more, and so is within
/// 2u + u^2 of its parts' magnitudes in all. Additions in fp32 are of 8 numbers at most, within 2^-24 each, of sums that
/// rounding has made larger by 3u at most.
TEST(exchange_two_levels, results_are_within_one_more_rounding_of_the_exact_sums) {
  const exchange_case c =
      forwarded_in_groups_of(4, {8, sizes(64, 8, 264, 20), std::vector<int>(8, 20), routing::distinct});
  const auto outputs = outputs_of(c);
  const auto inputs = draw_inputs(c, 7);
  const expected_round round{c, inputs};
  const double u = std::ldexp(1.0, -8), of_group = 2 * u + u * u,
               of_additions = 8 * std::ldexp(1.0, -24) * (1 + 3 * u);
  double closest = 1;  // of what the bound leaves
  for (int rank = 0; rank < c.ranks; ++rank) {
    const parts_of_ranks parts{round, rank};
    for (std::size_t t = 0; t < 20; ++t) {
      std::vector<double> exact(264), bound(264);
      for (int r = 0; r < c.ranks; ++r) {
        const std::vector<float> part = parts.of(t, r);
        const double share = r == rank ? 0 : r / 4 == rank / 4 ? u : of_group;
        for (std::size_t h = 0; h < part.size(); ++h) {
          exact[h] += static_cast<double>(part[h]);
          bound[h] += std::abs(static_cast<double>(part[h])) * (share + of_additions);
        }
      }
      for (std::size_t h = 0; h < exact.size(); ++h) {
        const double off =
            std::abs(static_cast<double>(outputs[static_cast<std::size_t>(rank)][t * 264 + h]) - exact[h]);
        ASSERT_LE(off, bound[h]) << "rank " << rank << ", token " << t << ", column " << h;
        closest = std::min(closest, 1 - off / bound[h]);
      }
    }
  }
  RecordProperty("least_of_the_bound_that_is_left", fmt::format("{}", closest));
}

/// Lines of ids to all ranks of other groups; tokens and sums to the counterpart there alone.
TEST(exchange_two_levels, a_token_is_put_once_to_each_other_group_and_comes_back_once) {
  const exchange_case c =
      forwarded_in_groups_of(2, {6, sizes(12, 3, 64, 9), {9, 4, 0, 7, 9, 1}, routing::sparse});
  const auto worlds = simulated_worlds(6, {});
  auto ranks = make_ranks(worlds, c.config);
  EXPECT_EQ(run_round(c, ranks, 5, calls::fused), "");
  const auto inputs = draw_inputs(c, 5);
  const auto sent = [&](int from, int group) {
    const rank_inputs& in = inputs[static_cast<std::size_t>(from)];
    std::uint64_t tokens = 0;
    for (std::size_t t = 0; t < static_cast<std::size_t>(in.num_tokens); ++t) {
      const auto ids = in.topk_idx.begin() + static_cast<std::ptrdiff_t>(3 * t);
      tokens +=
          std::any_of(ids, ids + 3, [&](int id) { return id >= 0 && rank_of_expert(c, id) / 2 == group; });
    }
    return tokens;
  };
  const ep::per_rank_chunks::cells window{
      {.num_experts = 12, .num_ranks = 6, .top_k = 3, .hidden = 64, .max_tokens = 9}};
  for (int from = 0; from < 6; ++from)
    for (int to = 0; to < 6; ++to) {
      std::uint64_t expected = from / 2 == to / 2 ? 0 : static_cast<std::uint64_t>(window.id_accesses);
      if (expected > 0 && from % 2 == to % 2)
        expected += sent(from, to / 2) + sent(to, from / 2) * static_cast<std::uint64_t>(window.sum_parts);
      EXPECT_EQ(worlds[0].state().machine->sent_through_network(from, to).puts, expected)
          << from << " to " << to;
    }
}

std::string forwarded_rounds_under(const sim::options& options, int ranks, int group, bool narrow = false) {
  exchange_case c = forwarded_in_groups_of(group, case_of_late_puts(ranks));
  if (narrow) c.config.hidden = 384, c.config.combine_format = token_format::blockwise_fp8;
  if (ranks > c.config.num_experts) c.config.num_experts = ranks;
  return rounds_under(options, c);
}

TEST(exchange_two_levels, results_are_the_same_bits_however_puts_are_reordered) {
  for (const sim::schedule order : {sim::schedule::random, sim::schedule::priority})
    for (std::uint64_t seed = 1; seed <= 15; ++seed) {
      EXPECT_EQ(forwarded_rounds_under(late_puts(order, seed), 2, 1), "");
      EXPECT_EQ(forwarded_rounds_under(late_puts(order, seed), 4, 2, seed % 2 == 0), "");
    }
  for (const sim::schedule order : {sim::schedule::random, sim::schedule::priority})
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      EXPECT_EQ(forwarded_rounds_under(late_puts(order, seed), 6, 3), "");
      EXPECT_EQ(forwarded_rounds_under(late_puts(order, seed), 8, 2), "");
    }
}

TEST(exchange_two_levels, a_word_that_overtakes_its_put_is_exposed_by_some_schedule) {
  expect_exposed_without_fences(
      [](const sim::options& options) { return forwarded_rounds_under(options, 4, 2); });
}

TEST(exchange_two_levels, a_rank_that_is_lost_is_named_by_every_survivor_at_the_same_place) {
  expect_lost_ranks_named_at(
      "dispatch.ids", [](int group, const exchange_case& c) { return forwarded_in_groups_of(group, c); });
}

/// Also who waited for a survivor names it. Who names nobody has what it must have: a forwarder that gave up sends nothing.
TEST(exchange_two_levels, a_rank_that_dies_at_any_step_is_what_each_survivor_names) {
  const exchange_case c = forwarded_in_groups_of(2, case_of_eight_experts(4));
  auto healthy = make_ranks(simulated_worlds(4, {}), c.config);
  run_until_stuck(healthy, c);
  std::map<std::string, int> sites;
  int unharmed = 0;
  for (std::uint64_t step = 0; step < 400; step += 3) {
    sim::options options = late_puts(sim::schedule::random, step + 1);
    options.faults = {{sim::fault::kind::dies_at_step, 1, step}};
    auto ranks = make_ranks(simulated_worlds(4, options), c.config);
    const auto found = run_until_stuck(ranks, c);
    for (const int survivor : {0, 2, 3}) {
      const auto at = static_cast<std::size_t>(survivor);
      const stuck::details& own = found[at];
      EXPECT_TRUE(own.peer == 1 || own.peer == -2)
          << "step " << step << ": rank " << survivor << " names " << own.peer;
      if (own.peer == -2) {
        ++unharmed;
        EXPECT_EQ(difference(healthy[at].read_output(), ranks[at].read_output()), "")
            << "step " << step << ", rank " << survivor;
        continue;
      }
      ++sites[own.site];
    }
  }
  EXPECT_GT(unharmed, 0);
  EXPECT_GT(sites["dispatch.forward"], 0);
  EXPECT_GT(sites["combine.forward"], 0);
  for (const auto& [site, times] : sites) RecordProperty(site, times);
}

constexpr std::uint64_t one_deadline = 30'000'000'000;

/// Rank 2 sends, and forwards nothing of rank 0's: that is all that rank 3 lacks.
TEST(exchange_two_levels,
     a_forwarder_that_does_not_come_is_named_by_who_is_sent_nothing_after_two_deadlines) {
  const exchange_case c = forwarded_in_groups_of(2, case_of_eight_experts(4));
  auto ranks = make_ranks(simulated_worlds(4, {}), c.config);
  const auto inputs = draw_inputs(c, 1);
  for (std::size_t r = 0; r < 4; ++r) ranks[r].load(inputs[r]);
  for (exchange_rank& r : ranks) r.dispatch_async();
  for (const std::size_t r : {0, 1, 3}) ranks[r].dispatch_wait();
  for (const std::size_t r : {0, 1}) EXPECT_NO_THROW(ranks[r].ranks().synchronize()) << "rank " << r;
  try {
    ranks[3].ranks().synchronize();
    ADD_FAILURE() << "rank 3 has all there is";
  } catch (const stuck& e) {
    EXPECT_EQ(e.where.site, "dispatch.chunk");
    EXPECT_EQ(e.where.peer, 2);
    EXPECT_GE(e.where.waited_ns, 2 * one_deadline);
  }
}

/// Ids of rank 0 are there, and some of its tokens are not: its forwarder gives up before others do, who wait for that one.
TEST(exchange_two_levels, a_source_that_is_cut_off_is_named_by_its_forwarder_and_by_who_waited_for_that) {
  const exchange_case c = forwarded_in_groups_of(2, case_of_eight_experts(4));
  int of_forwarder = 0, of_receiver = 0;
  for (std::uint64_t step = 0; step < 120; ++step) {
    sim::options options;
    options.faults = {{sim::fault::kind::is_cut_off, 0, step}};
    auto ranks = make_ranks(simulated_worlds(4, options), c.config);
    const auto found = run_until_stuck(ranks, c);
    if (found[2].peer != 0 || found[2].site == "dispatch.ids" || found[2].site == "combine.sum") continue;
    ++of_forwarder;
    EXPECT_EQ(found[2].site, "dispatch.forward") << "step " << step;
    EXPECT_GE(found[2].waited_ns, one_deadline);
    EXPECT_LT(found[2].waited_ns, 2 * one_deadline);
    if (found[3].site != "dispatch.chunk") continue;
    ++of_receiver;
    EXPECT_EQ(found[3].peer, 0) << "step " << step;
    EXPECT_GE(found[3].waited_ns, 2 * one_deadline) << "step " << step;
  }
  EXPECT_GT(of_forwarder, 0);
  EXPECT_GT(of_receiver, 0);
  RecordProperty("named_by_its_forwarder", of_forwarder);
  RecordProperty("by_who_waited_for_that", of_receiver);
}

TEST(exchange_two_levels, processes_forward_for_each_other) {
  const std::string run = unique_name();
  const auto results = in_processes({0, 1, 2, 3}, [&](int rank) {
    ::setenv("BATON_DEADLINE_MS", "8000", 1);
    set_launch_environment(rank, 4, run);
    const exchange_case c =
        forwarded_in_groups_of(2, {4, sizes(8, 6, 64, 5), {5, 5, 0, 5}, routing::distinct});
    exchange_rank mine{expert_parallel::create(world::from_environment(device_kind::cpu), c.config)};
    for (std::uint64_t round = 1; round <= 2; ++round) expect_no_error(run_rank(c, mine, round));
    mine.ranks().synchronize();
    return true;
  });
  for (std::size_t r = 0; r < results.size(); ++r)
    EXPECT_EQ(results[r].exit_code, 0) << "rank " << r << ": " << results[r].thrown;
}

TEST(exchange_two_levels, where_nobody_could_forward_they_are_refused_by_name) {
  ep_config c = sizes(8, 2, 64, 6);
  c.p2p_group_size = 2;
  c.levels = ep_levels::two;
  EXPECT_EQ(
      why_not(c, 4),
      "levels: two, but with layout per_expert a token is a message for each of its experts, which nobody "
      "forwards; use layout per_rank, or levels one");
  c.layout = ep_layout::per_rank;
  EXPECT_EQ(why_not(c, 4), "");
  EXPECT_EQ(
      why_not(c, 3),
      "levels: two, but groups of 2 of 3 ranks are not all as large, so that some ranks have no forwarder "
      "in the last one; use a p2p_group_size that divides the ranks, or levels one");
  c.transfer = ep_transfer::lines;
  EXPECT_EQ(why_not(c, 4).substr(0, 35), "p2p_group_size: 2 of 4 ranks, but l");
  c.p2p_group_size = 0;
  EXPECT_EQ(why_not(c, 4), "");
  c.levels = ep_levels{2};
  EXPECT_EQ(why_not(c, 4), "levels: 2 is no ep_levels");
}

TEST(exchange_two_levels, what_forwarders_keep_is_counted) {
  ep_config one = sizes(8, 2, 64, 6);
  one.layout = ep_layout::per_rank;
  one.p2p_group_size = 2;
  ep_config two = one;
  two.levels = ep_levels::two;
  const workspace_size before = workspace_bytes(one, 4), with_both = workspace_bytes(two, 4);
  const std::size_t words = 2 * 2 * 6 * 8;          // of both rounds, each group's chunks
  const std::size_t tokens = 2 * 6 * (64 * 4 + 4);  // of each group's tokens a sum of fp32, and who wants it
  EXPECT_GE(with_both.window - before.window, words);
  EXPECT_LT(with_both.window - before.window, words + 256);
  EXPECT_GE(with_both.local - before.local, tokens);
  EXPECT_LT(with_both.local - before.local, tokens + 512);
}

}  // namespace
}  // namespace baton::test
