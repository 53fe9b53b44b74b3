// What messages wait for: links and cards that take one at a time, and the pace at which ranks send.
#include "forecast/trains.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include "forecast/senders.hpp"

namespace baton::forecast {
namespace {

question in_groups_of_two(int ranks, int tokens) {
  question q;
  q.ranks = ranks;
  q.config.num_experts = 64;
  q.config.top_k = 8;
  q.config.hidden = 7168;
  q.config.num_max_tokens_per_rank = tokens;
  q.config.format = token_format::blockwise_fp8;
  q.config.layout = ep_layout::per_rank;
  q.config.p2p_group_size = 2;
  return q;
}

/// Single messages in queues, the first to come the first to go, one after the other.
std::vector<double> times_behind_queues(const std::vector<train>& trains, std::size_t queues,
                                        double latency) {
  std::vector<std::size_t> order(trains.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return trains[a].first < trains[b].first; });
  std::vector<double> free(queues, 0.0), times(trains.size());
  for (const std::size_t i : order) {
    double& of = free[static_cast<std::size_t>(trains[i].to)];
    of = std::max(of, trains[i].first) + trains[i].cost;
    times[i] = of + latency;
  }
  return times;
}

TEST(forecast_trains, single_messages_wait_in_a_queue) {
  std::mt19937_64 random{3};
  std::vector<train> trains;
  for (int i = 0; i < 2000; ++i) {
    const double time = static_cast<double>(random() % 500);
    trains.push_back(
        {time, time, 0.5 + static_cast<double>(random() % 8) / 8, 1, 0, static_cast<int>(random() % 3)});
  }
  const std::vector<double> expected = times_behind_queues(trains, 3, 2);
  crossing through{std::vector<double>(3, 0.0), 2};
  pass(trains, through, [](const train& t) { return t.to; });
  for (std::size_t i = 0; i < trains.size(); ++i) {
    EXPECT_NEAR(trains[i].first, expected[i],
                1e-9);  // 2,000 sums of numbers below 2^11, each rounded to 2^-42
    EXPECT_NEAR(trains[i].last, expected[i], 1e-9);
  }
}

/// The others' last one has passed by the time that another message comes.
TEST(forecast_trains, a_train_that_ends_when_another_message_comes_does_not_wait_for_it) {
  std::vector<train> trains{{10, 10, 5, 1, 0, 0}, {0, 10, 1, 11, 0, 0}};
  crossing through{{0.0}, 2};
  pass(trains, through, [](const train& t) { return t.to; });
  EXPECT_EQ(trains[1].last, 10 + 1 + 2);
  EXPECT_EQ(trains[0].first, 10 + 1 + 5 + 2);
}

/// Those to the group at the pace of links, others at that of the card, whatever the others take.
TEST(forecast_trains, messages_leave_at_the_pace_of_what_they_pass) {
  const question q = in_groups_of_two(4, 1);
  phase all{q};
  sender out{q, all, 0};
  std::vector<train> near, far;
  const sender::block begun = out.begin_block(near, far);
  out.send_near(1, 10, 1 << 20, near);
  out.send_far(2, 10, {1 << 10, 1, 1}, far);
  out.end_block(begun, near, far);
  const double links = 10 * q.links.near_cost(1 << 20), card = 10 * cost_of(q.links, {1 << 10, 1, 1});
  ASSERT_GT(links, 2 * card);
  for (const auto& [last, in_all] : {std::pair{near.at(0).last, links}, {far.at(0).last, card}}) {
    EXPECT_LE(last, in_all);
    EXPECT_GE(last, 0.8 * in_all);
  }
}

/// Each with its word.
TEST(forecast_trains, lines_of_ids_take_a_card_as_long_as_so_many_puts) {
  const question q = in_groups_of_two(4, 4096);
  const message_sizes sizes = sizes_of(q);
  ASSERT_GT(sizes.far_id_puts, 1);
  phase all{q};
  sender out{q, all, 0};
  std::vector<train> near, far;
  out.send_ids(sizes, 2, near, far);
  const double of_a_line = q.links.far_cost(static_cast<double>(sizes.far_ids) / sizes.far_id_puts) +
                           q.links.far_cost(signal_bytes);
  EXPECT_NEAR(far.at(0).work() / (sizes.far_id_puts * of_a_line), 1, 1e-12);  // a few roundings
}

/// Rank 0 has four experts that all want: rows of two ranks for each, of which a GPU's warps have some thousand at a time.
TEST(forecast_trains, rows_of_both_ranks_are_on_their_way_together_to_the_last) {
  question q = in_groups_of_two(3, 1400);
  q.config.layout = ep_layout::per_expert;
  q.config.p2p_group_size = 0;
  const routed routing{q, [](int rank, std::span<std::int32_t> ids) {
                         for (std::size_t i = 0; i < ids.size(); ++i) {
                           const auto choice = static_cast<std::int32_t>(i % 8);
                           ids[i] = rank == 0 || choice > 3 ? -1 : choice;
                         }
                       }};
  const message_sizes sizes = sizes_of(q);
  const phase back = combine_phase(q, sizes, routing);
  EXPECT_NEAR(back.arrived_us[1], back.arrived_us[2], 100 * q.links.near_cost(sizes.near_reply));
}

}  // namespace
}  // namespace baton::forecast
