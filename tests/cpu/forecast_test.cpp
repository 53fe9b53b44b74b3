// Rounds on ranks that are not there: messages are those that the kernels send, and what they wait for is a queue.
#include "forecast/forecast.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "baton/error.hpp"
#include "cli/bench/ep_routing.hpp"
#include "cli/bench/ep_traffic.hpp"
#include "forecast/kernel_time.hpp"
#include "kernels/ep/shape.hpp"
#include "tests/support/exchange_cases.hpp"

namespace baton::forecast {
namespace {

question asked(int ranks, int group, int tokens, ep_layout layout = ep_layout::per_rank,
               ep_levels by = ep_levels::one) {
  question q;
  q.ranks = ranks;
  q.config.levels = by;
  q.config.num_experts = std::max(64, ranks);
  q.config.top_k = 8;
  q.config.hidden = 7168;
  q.config.num_max_tokens_per_rank = tokens;
  q.config.format = token_format::blockwise_fp8;
  q.config.layout = layout;
  q.config.p2p_group_size = group;
  return q;
}

/// Tokens of a rank are the first of those that it would have if it had more.
choices_of_ranks drawn(const question& q, cli::ep_routing kind = cli::ep_routing::uniform) {
  const cli::routing_case all{
      .kind = kind, .num_experts = q.config.num_experts, .top_k = q.config.top_k, .num_ranks = q.ranks};
  return [route = cli::router_of(all, 0)](int rank, std::span<std::int32_t> ids) {
    cli::random_bits random{static_cast<std::uint64_t>(rank) + 1};
    std::vector<float> weights(static_cast<std::size_t>(8));
    for (std::size_t at = 0; at < ids.size(); at += weights.size())
      route(random, ids.subspan(at, weights.size()), weights);
  };
}

round_forecast round_of(const question& q) {
  return forecast_round(q, drawn(q));
}

TEST(forecast, bytes_within_a_group_are_those_that_benchmarks_count) {
  for (const int ranks : {2, 3, 8})
    for (const ep_layout layout : {ep_layout::per_expert, ep_layout::per_rank})
      for (const ep_transfer how : {ep_transfer::lines, ep_transfer::chunks, ep_transfer::flags}) {
        question q = asked(ranks, 0, 24, layout);
        q.config.transfer = how;
        // Sums of chunks in FP8 have their scales in whole 16 bytes, which benchmarks do not count.
        const bool is_padded = layout == ep_layout::per_expert || how == ep_transfer::chunks;
        q.config.combine_format = is_padded ? token_format::bf16 : token_format::blockwise_fp8;
        cli::ep_traffic counted{q.config, ranks};
        const choices_of_ranks route = drawn(q);
        std::vector<std::int32_t> ids(24 * 8);
        for (int r = 0; r < ranks; ++r) {
          route(r, ids);
          counted.count(r, ids);
        }
        std::uint64_t out = 0, back = 0;
        for (int from = 0; from < ranks; ++from)
          for (int to = 0; to < ranks; ++to) {
            out += from == to ? 0 : counted.dispatch_bytes(from, to);
            back += from == to ? 0 : counted.combine_bytes(from, to);
          }
        const round_forecast f = round_of(q);
        EXPECT_EQ(f.dispatch.near.bytes + f.dispatch.near.id_bytes, out) << ranks << test::name(how);
        EXPECT_EQ(f.combine.near.bytes, back) << ranks << test::name(how);
      }
}

TEST(forecast, two_levels_put_a_token_once_to_each_other_group_that_has_an_expert_of_it) {
  const question q = asked(24, 8, 40, ep_layout::per_expert, ep_levels::two);
  const choices_of_ranks route = drawn(q);
  std::uint64_t expected = 0;
  std::vector<std::int32_t> ids(40 * 8);
  const ep::shape s{.num_experts = q.config.num_experts, .num_ranks = q.ranks};
  for (int rank = 0; rank < q.ranks; ++rank) {
    route(rank, ids);
    for (std::size_t t = 0; t < 40; ++t) {
      std::vector<bool> told(3);
      for (std::size_t k = 0; k < 8; ++k)
        told[static_cast<std::size_t>(q.group_of(s.home(ids[8 * t + k]).rank))] = true;
      told[static_cast<std::size_t>(q.group_of(rank))] = false;
      expected += static_cast<std::uint64_t>(std::count(told.begin(), told.end(), true));
    }
  }
  const round_forecast f = forecast_round(q, route);
  EXPECT_EQ(f.dispatch.far.messages, expected);
  EXPECT_EQ(f.combine.far.messages, expected);
  EXPECT_EQ(f.dispatch.far.bytes, expected * static_cast<std::uint64_t>(f.sizes.group_message));
  EXPECT_EQ(f.dispatch.far.signals, expected + 24 * 2)
      << "each rank's last word to its forwarder in each group";
}

double sum(const std::vector<double>& all) {
  return std::accumulate(all.begin(), all.end(), 0.0);
}

/// A communicator's is of whole slots.
void expect_the_window_of(const question& q) {
  const std::size_t window = workspace_bytes(q.config, q.ranks).window;
  EXPECT_LE(sizes_of(q).window_bytes, window);
  EXPECT_GT(sizes_of(q).window_bytes + 512, window);
}

TEST(forecast, windows_are_as_large_as_those_of_a_communicator) {
  for (const int group : {0, 1, 4})
    for (const int tokens : {128, 4096}) {
      SCOPED_TRACE(testing::Message() << "groups of " << group << ", " << tokens << " tokens");
      expect_the_window_of(asked(8, group, tokens));
      expect_the_window_of(asked(8, group, tokens, ep_layout::per_rank, ep_levels::two));
      expect_the_window_of(asked(8, group, tokens, ep_layout::per_expert));
    }
  expect_the_window_of(asked(2, 1, 1024));  // a sum in more parts where stores reach all ranks
}

TEST(forecast, what_goes_out_comes_in) {
  for (const ep_levels by : {ep_levels::one, ep_levels::two})
    for (const ep_layout layout : {ep_layout::per_expert, ep_layout::per_rank}) {
      question q = asked(20, 8, 33, layout, by);  // the last group is smaller
      q.links.ranks_per_nic = 2;
      const routed routing{q, drawn(q)};
      const message_sizes sizes = sizes_of(q);
      for (const phase& p : {dispatch_phase(q, sizes, routing), combine_phase(q, sizes, routing)}) {
        // Sums of the same costs in another order: a rounding each, of n terms.
        const double rounding = 1e-12;
        EXPECT_NEAR(sum(p.through.near_out.busy_us) / sum(p.through.near_in.busy_us), 1, rounding);
        EXPECT_NEAR(sum(p.through.nic_out.busy_us) / sum(p.through.nic_in.busy_us), 1, rounding);
      }
    }
}

TEST(forecast, no_phase_is_shorter_than_its_busiest_link_or_card) {
  for (const ep_levels by : {ep_levels::one, ep_levels::two})
    for (const int tokens : {1, 16, 300})
      for (const ep_layout layout : {ep_layout::per_expert, ep_layout::per_rank}) {
        const round_forecast f = round_of(asked(32, 8, tokens, layout, by));
        EXPECT_GE(f.dispatch.slowest_us, f.dispatch.busiest_us);
        EXPECT_GE(f.combine.slowest_us, f.combine.busiest_us);
        EXPECT_GE(f.dispatch.slowest_us, f.dispatch.median_us);
      }
}

TEST(forecast, one_level_is_two_levels_where_all_ranks_are_one_group) {
  for (const ep_layout layout : {ep_layout::per_expert, ep_layout::per_rank}) {
    const round_forecast one = round_of(asked(16, 0, 100, layout, ep_levels::one)),
                         two = round_of(asked(16, 16, 100, layout, ep_levels::two));
    EXPECT_EQ(one.dispatch.slowest_us, two.dispatch.slowest_us);
    EXPECT_EQ(one.combine.slowest_us, two.combine.slowest_us);
    EXPECT_EQ(one.dispatch.near.bytes, two.dispatch.near.bytes);
    EXPECT_EQ(two.dispatch.far.messages, 0u);
  }
}

/// As kernels have it: nobody forwards, and those of one level are taken.
TEST(forecast, two_levels_in_groups_of_one_are_one) {
  for (const ep_layout layout : {ep_layout::per_expert, ep_layout::per_rank}) {
    const round_forecast one = round_of(asked(12, 1, 50, layout)),
                         two = round_of(asked(12, 1, 50, layout, ep_levels::two));
    EXPECT_EQ(one.dispatch.far.messages, two.dispatch.far.messages);
    EXPECT_EQ(one.dispatch.far.bytes, two.dispatch.far.bytes);
    EXPECT_EQ(one.combine.far.bytes, two.combine.far.bytes);
    EXPECT_EQ(one.round_us(), two.round_us());
    EXPECT_EQ(two.dispatch.near.messages, 0u);
  }
}

/// Puts are stores there, through the links that take what goes to the group.
TEST(forecast, on_one_host_links_take_both_and_cards_do_not_count) {
  for (const auto& [layout, gb_per_s] :
       {std::pair{ep_layout::per_expert, 357.0}, {ep_layout::per_rank, 357.0}, {ep_layout::per_rank, 10.0}}) {
    question q = asked(4, 2, 1024, layout);
    q.links.one_host = true;
    q.links.near_gb_per_s = gb_per_s;
    const round_forecast f = round_of(q);
    q.links.nic_gb_per_s = 1;
    q.links.nic_us = 1000;
    q.links.ranks_per_nic = 2;
    EXPECT_EQ(round_of(q).round_us(), f.round_us());
    EXPECT_NE(f.dispatch.of, bottleneck::cards_out);
    EXPECT_NE(f.dispatch.of, bottleneck::cards_in);
    for (const phase_forecast& p : {f.dispatch, f.combine}) {
      const double bytes_of_gpu = static_cast<double>(p.near.bytes + p.far.bytes) / q.ranks;
      EXPECT_GT(p.slowest_us, q.links.near_cost(bytes_of_gpu));
    }
  }
}

/// The tokens of a tile come together, and a warp forwards those that it has of them one after the other.
TEST(forecast, forwarding_takes_time_that_few_tokens_see_most) {
  const auto more = [](int tokens) {
    question q = asked(4, 2, tokens, ep_layout::per_rank, ep_levels::two);
    q.links.one_host = true;
    const double two = round_of(q).round_us();
    q.config.levels = ep_levels::one;
    return two - round_of(q).round_us();
  };
  EXPECT_GT(more(1), 10);
  EXPECT_GT(more(16), more(1));
  EXPECT_LT(more(1024), more(16));
}

TEST(forecast, within_a_group_tokens_travel_in_chunks_where_there_are_others) {
  EXPECT_EQ(transfer_in_group(asked(8, 8, 128)), ep_transfer::lines);
  for (const int ranks : {16, 1024}) EXPECT_EQ(transfer_in_group(asked(ranks, 8, 128)), ep_transfer::chunks);
}

TEST(forecast, the_same_question_has_the_same_answer) {
  const question q = asked(40, 8, 64, ep_layout::per_expert, ep_levels::two);
  const round_forecast first = round_of(q), again = round_of(q);
  EXPECT_EQ(first.dispatch.slowest_us, again.dispatch.slowest_us);
  EXPECT_EQ(first.combine.median_us, again.combine.median_us);
  EXPECT_EQ(first.combine.far.bytes, again.combine.far.bytes);
}

TEST(forecast, more_tokens_and_wider_ones_take_no_less_time) {
  for (const ep_levels by : {ep_levels::one, ep_levels::two})
    for (const ep_layout layout : {ep_layout::per_expert, ep_layout::per_rank}) {
      double before = 0;
      for (const int tokens : {1, 8, 64, 256, 1024}) {
        const double now = round_of(asked(16, 4, tokens, layout, by)).round_us();
        EXPECT_GE(now, before) << tokens;
        before = now;
      }
      question wide = asked(16, 4, 64, layout, by);
      const double narrow = round_of(wide).round_us();
      wide.config.hidden *= 2;
      EXPECT_GT(round_of(wide).round_us(), narrow);
    }
}

TEST(forecast, a_slower_link_or_card_takes_no_less_time) {
  const question q = asked(16, 4, 256, ep_layout::per_rank, ep_levels::two);
  const double before = round_of(q).round_us();
  const auto with = [&](auto change) {
    question slower = q;
    change(slower.links);
    return round_of(slower).round_us();
  };
  EXPECT_GT(with([](link_facts& l) { l.nic_gb_per_s /= 2; }), before);
  EXPECT_GT(with([](link_facts& l) { l.nic_us *= 3; }), before);
  EXPECT_GT(with([](link_facts& l) { l.near_us *= 3; }), before);
  EXPECT_GE(with([](link_facts& l) { l.near_gb_per_s /= 2; }), before);
  EXPECT_GT(with([](link_facts& l) { l.nic_messages_per_us = 1; }), before);
  EXPECT_GT(with([](link_facts& l) { l.ranks_per_nic = 4; }), before);
}

/// All cards but those of one group have nothing to take in, and that one's take all.
TEST(forecast, everybody_waits_for_a_card_that_all_want) {
  const question q = asked(32, 8, 64, ep_layout::per_rank, ep_levels::one);
  const round_forecast even = round_of(q), hot = forecast_round(q, drawn(q, cli::ep_routing::zipf));
  EXPECT_EQ(hot.dispatch.of, bottleneck::cards_in);
  EXPECT_GT(hot.dispatch.busiest_us, 1.5 * even.dispatch.busiest_us);
  EXPECT_GT(hot.dispatch.slowest_us, even.dispatch.slowest_us);
}

/// Each token of the ranks in `from` to the experts of rank `to`, and of others none.
choices_of_ranks all_to(int to, const question& q, const std::vector<int>& from) {
  const int first = ep::shape{.num_experts = q.config.num_experts, .num_ranks = q.ranks}.first_expert(to);
  return [=](int rank, std::span<std::int32_t> ids) {
    const bool sends = std::find(from.begin(), from.end(), rank) != from.end();
    std::fill(ids.begin(), ids.end(), sends ? first : -1);
  };
}

TEST(forecast, a_rank_that_only_sends_is_not_done_before_its_links) {
  const question q = asked(3, 0, 4096);
  const round_forecast f = forecast_round(q, all_to(0, q, {1, 2}));
  const double sent_us = 4096 * q.links.near_cost(f.sizes.near_message);
  EXPECT_GE(f.dispatch.median_us, sent_us);  // ranks 1 and 2
  EXPECT_GT(f.dispatch.slowest_us, 1.9 * sent_us) << "rank 0 takes both ranks' tokens in";
}

/// Rank r sends r times 256 tokens to rank 0, which is the slowest of nine.
TEST(forecast, half_of_the_ranks_are_done_by_the_median) {
  const question q = asked(9, 0, 2048);
  const choices_of_ranks route = [all = all_to(0, q, {0, 1, 2, 3, 4, 5, 6, 7, 8})](int rank, auto ids) {
    std::fill(ids.begin(), ids.end(), -1);
    all(rank, ids.first(static_cast<std::size_t>(rank) * 256 * 8));
  };
  const round_forecast f = forecast_round(q, route);
  const double of_256 = 256 * q.links.near_cost(f.sizes.near_message),
               expected = measured_kernels(q).dispatch.fixed_us + 5 * of_256;
  EXPECT_NEAR(f.dispatch.median_us, expected, of_256 / 2);  // ids beside
}

TEST(forecast, tokens_that_stay_where_they_arrive_cost_no_memory) {
  question q = asked(4, 0, 4096);
  q.config.transfer = ep_transfer::chunks;
  const auto bytes = [&](ep_rows rows) {
    q.config.rows = rows;
    const message_sizes sizes = sizes_of(q);
    const routed routing{q, drawn(q)};
    return dispatch_bytes(q, sizes, routing, dispatch_phase(q, sizes, routing), 2);
  };
  EXPECT_GT(bytes(ep_rows::by_expert), 0);
  EXPECT_EQ(bytes(ep_rows::by_token), 0);
}

TEST(forecast, what_is_forwarded_is_work_of_the_forwarder) {
  const question q = asked(6, 3, 40, ep_layout::per_rank, ep_levels::two);
  const message_sizes sizes = sizes_of(q);
  const routed of_one{q, all_to(5, q, {1})};
  const phase out = dispatch_phase(q, sizes, of_one), back = combine_phase(q, sizes, of_one);
  for (int r = 0; r < 6; ++r) {
    const auto rank = static_cast<std::size_t>(r);
    EXPECT_EQ(out.forwarded_bytes[rank], r == 4 ? 40.0 * sizes.group_message : 0) << r;
    EXPECT_EQ(out.put_bytes[rank], r == 1 ? 40.0 * sizes.group_message : 0) << r;
    EXPECT_EQ(back.put_bytes[rank], r == 4 ? 40.0 * sizes.group_reply : 0) << r;
  }
}

/// A train is its messages but for where they are between its ends: no time is off by more than a block takes on the slowest way.
TEST(forecast, blocks_of_tokens_take_as_long_as_their_messages) {
  for (const ep_levels by : {ep_levels::one, ep_levels::two})
    for (const ep_layout layout : {ep_layout::per_expert, ep_layout::per_rank}) {
      const question q = asked(16, 4, 512, layout, by);
      const message_sizes sizes = sizes_of(q);
      const routed each{q, drawn(q)}, blocks{q, drawn(q), std::size_t{16} * 64 * 16};
      ASSERT_EQ(each.tokens_of_block(), 1);
      ASSERT_GE(blocks.tokens_of_block(), 8);
      const auto all_there = [](const phase& p) {
        return *std::max_element(p.arrived_us.begin(), p.arrived_us.end());
      };
      for (const auto phase_of : {dispatch_phase, combine_phase}) {
        const double exact = all_there(phase_of(q, sizes, each)),
                     coarse = all_there(phase_of(q, sizes, blocks));
        const double of_block = exact * blocks.tokens_of_block() / 512;
        EXPECT_NEAR(coarse, exact, of_block) << (by == ep_levels::two) << (layout == ep_layout::per_rank);
      }
    }
}

/// Four ranks in groups of two with two levels, of which only rank 0 has tokens.
question of_four(int tokens) {
  question q = asked(4, 2, tokens, ep_layout::per_rank, ep_levels::two);
  q.config.num_experts = 4;
  q.config.top_k = 2;
  return q;
}

choices_of_ranks rank_0_chooses(std::int32_t first, std::int32_t second) {
  return [=](int rank, std::span<std::int32_t> ids) {
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = rank > 0 ? -1 : i % 2 == 0 ? first : second;
  };
}

/// From group to group: out of one card and into the next.
double by_network(const question& q, double bytes, int puts) {
  return 2 * puts * (q.links.far_cost(bytes / puts) + q.links.far_cost(signal_bytes)) + q.links.nic_us;
}

/// From rank to rank of a group.
double by_links(const question& q, int bytes) {
  return 2 * q.links.near_cost(bytes) + q.links.near_us;
}

TEST(forecast, what_is_forwarded_leaves_when_it_has_come) {
  const question q = of_four(64);
  const routed in_one_block{q, rank_0_chooses(3, -1), 1};
  ASSERT_EQ(in_one_block.blocks(), 1);
  const message_sizes sizes = sizes_of(q);
  const phase out = dispatch_phase(q, sizes, in_one_block);
  EXPECT_GT(out.arrived_us[2], 64 * q.links.far_cost(sizes.group_message));
  // Links are faster than cards, so that what comes last finds nobody before it.
  const double rounding = 1e-9;  // of sums of some hundred microseconds, each to 2^-45
  EXPECT_NEAR(out.arrived_us[3], out.arrived_us[2] + by_links(q, sizes.near_message), rounding);
}

TEST(forecast, a_sum_leaves_when_all_its_replies_are_there) {
  const question q = of_four(1);
  const message_sizes sizes = sizes_of(q);
  ASSERT_GT(sizes.parts_of_reply, 1);
  const routed of_both{q, rank_0_chooses(2, 3)}, of_forwarder{q, rank_0_chooses(2, -1)};
  const double rounding = 1e-12;  // of a dozen sums of some microseconds, each to 2^-50
  EXPECT_NEAR(combine_phase(q, sizes, of_forwarder).arrived_us[0],
              by_network(q, sizes.group_reply, sizes.parts_of_reply), rounding);
  EXPECT_NEAR(combine_phase(q, sizes, of_both).arrived_us[0],
              by_links(q, sizes.near_reply) + by_network(q, sizes.group_reply, sizes.parts_of_reply),
              rounding);
}

/// So that no card has to wait while another one has all: the last message is there hardly after the busiest card could be done.
TEST(forecast, sums_in_chunks_go_to_all_ranks_in_turn) {
  const phase_forecast f = round_of(asked(16, 8, 1024)).combine;
  EXPECT_LT(f.messages_us, 1.05 * f.busiest_us);
}

TEST(forecast, ranks_share_a_card_with_their_neighbours_in_their_group_and_with_nobody_else) {
  for (const int sharing : {1, 2, 4, 8}) {
    question q = asked(20, 8, 1);
    q.links.ranks_per_nic = sharing;
    for (int a = 0; a < q.ranks; ++a) {
      EXPECT_LT(q.nic_of(a), q.nics());
      for (int b = 0; b < q.ranks; ++b)
        EXPECT_EQ(q.nic_of(a) == q.nic_of(b), q.is_near(a, b) && a % 8 / sharing == b % 8 / sharing);
    }
  }
}

TEST(forecast, what_cannot_be_asked_is_refused_by_name) {
  const auto reason = [](auto change) {
    question q = asked(16, 8, 64);
    change(q);
    const std::string why = why_not(q);
    EXPECT_THROW(forecast_round(q, drawn(asked(16, 8, 64))), invalid_argument);
    return why;
  };
  EXPECT_EQ(reason([](question& q) { q.ranks = 1025; }), "ranks: 1025 is outside [1, 1024]");
  EXPECT_EQ(reason([](question& q) { q.config.num_experts = 15; }).substr(0, 11), "num_experts");
  EXPECT_EQ(reason([](question& q) { q.config.p2p_group_size = 17; }),
            "p2p_group_size: 17 is outside [1, 16], the ranks; 0 means all");
  EXPECT_EQ(reason([](question& q) { q.config.top_k = 0; }).substr(0, 5), "top_k");
  EXPECT_EQ(reason([](question& q) { q.config.hidden = 7; }).substr(0, 6), "hidden");
  EXPECT_EQ(reason([](question& q) { q.links.nic_gb_per_s = 0; }),
            "nic_gb_per_s: 0 is outside [0.001, 1000000]");
  EXPECT_EQ(reason([](question& q) { q.links.near_us = -1; }), "near_us: -1 is outside [0, 1000000]");
  EXPECT_EQ(reason([](question& q) { q.links.ranks_per_nic = 0; }), "ranks_per_nic: 0 is outside [1, 1024]");
}

TEST(forecast, cards_that_a_group_cannot_share_evenly_are_refused_where_there_are_cards) {
  const auto reason = [](int group, int sharing, bool one_host = false) {
    question q = asked(16, group, 64);
    q.links.ranks_per_nic = sharing;
    q.links.one_host = one_host;
    return why_not(q);
  };
  EXPECT_EQ(reason(8, 16),
            "ranks_per_nic: 16 does not divide the 8 of a p2p group, which has cards of its own");
  EXPECT_EQ(reason(8, 3),
            "ranks_per_nic: 3 does not divide the 8 of a p2p group, which has cards of its own");
  EXPECT_EQ(reason(6, 3), "") << "the last group is smaller";
  EXPECT_EQ(reason(8, 3, true), "");
  EXPECT_EQ(reason(16, 3), "") << "one group";
  question lone = asked(4, 4, 16);
  lone.links.ranks_per_nic = 8;
  EXPECT_GT(round_of(lone).round_us(), 0);
}

TEST(forecast, numbers_of_which_times_would_be_infinite_or_overflow_are_refused) {
  const auto reason = [](auto change) {
    question q = asked(16, 8, 64);
    change(q.links);
    return why_not(q);
  };
  constexpr double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(reason([](link_facts& l) { l.near_gb_per_s = 1e-308; }),
            "near_gb_per_s: 1e-308 is outside [0.001, 1000000]");
  EXPECT_EQ(reason([](link_facts& l) { l.nic_gb_per_s = infinity; }),
            "nic_gb_per_s: inf is outside [0.001, 1000000]");
  EXPECT_EQ(reason([](link_facts& l) { l.nic_us = std::nan(""); }), "nic_us: nan is outside [0, 1000000]");
  EXPECT_EQ(reason([](link_facts& l) { l.nic_messages_per_us = 5e-324; }).substr(0, 19),
            "nic_messages_per_us");
  EXPECT_EQ(
      reason([](link_facts& l) { l.nic_overhead_bytes = std::numeric_limits<int>::max(); }).substr(0, 18),
      "nic_overhead_bytes");
  EXPECT_EQ(reason([](link_facts& l) { l.ranks_per_nic = std::numeric_limits<int>::max(); }),
            "ranks_per_nic: 2147483647 is outside [1, 1024]");
}

}  // namespace
}  // namespace baton::forecast
