// Ranks beyond the p2p group: the exchange through the simulated network, whose puts come in any order but for fences.
#include <csignal>

#include "baton/error.hpp"
#include "protocol/peer_window.hpp"
#include "tests/support/exchange_cases.hpp"
#include "tests/support/exchange_in_groups.hpp"
#include "tests/support/exchange_processes.hpp"
#include "tests/support/simulated_worlds.hpp"
#include "tests/support/stuck_rounds.hpp"

namespace baton::test {
namespace {

exchange_case in_groups_of(int size, exchange_case c) {
  c.config.p2p_group_size = size;
  return c;
}
/// Groups smaller than all ranks, the last one at times smaller than the others.
std::vector<std::pair<int, int>> ranks_and_groups() {
  return {{2, 1}, {3, 2}, {4, 2}, {8, 3}};
}

TEST(exchange_groups, rounds_are_right_in_every_case) {
  for (const auto& [ranks, group] : ranks_and_groups()) {
    const auto worlds = world::local(ranks, device_kind::cpu);
    for (const named_case& c : conformance_cases(ranks)) {
      SCOPED_TRACE(fmt::format("{}, {} ranks, groups of {}", c.name, ranks, group));
      exchange_case what = in_groups_of(group, c.what);
      what.config.arrival = ranks % 2 == 0 ? arrival_policy::epoch : arrival_policy::sentinel;
      auto all = make_ranks(worlds, what.config);
      for (std::uint64_t seed = 1; seed <= 2; ++seed) EXPECT_EQ(run_round(what, all, seed), "");
    }
  }
}

TEST(exchange_groups, every_format_and_policy_travels) {
  const auto worlds = world::local(4, device_kind::cpu);
  for (const token_format format : {token_format::bf16, token_format::blockwise_fp8, token_format::mxfp8,
                                    token_format::mxfp4, token_format::nvfp4})
    for (const arrival_policy arrival : {arrival_policy::epoch, arrival_policy::sentinel})
      for (const int group : {1, 2}) {
        const exchange_case c = in_groups_of(group, with(case_of_eight_experts(4), format, arrival));
        auto ranks = make_ranks(worlds, c.config);
        for (std::uint64_t seed = 1; seed <= 3; ++seed)
          EXPECT_EQ(run_round(c, ranks, seed), "") << name(format) << ", groups of " << group;
      }
}

TEST(exchange_groups, results_are_the_bits_of_one_group) {
  exchange_case c{4, sizes(13, 5, 264, 17), {3, 8, 0, 17}, routing::sparse};
  const auto expected = outputs_of(c);
  for (const int group : {1, 2, 3}) EXPECT_EQ(outputs_of(in_groups_of(group, c)), expected) << group;
}

std::string run_under(const sim::options& options, int ranks, int group, arrival_policy arrival) {
  exchange_case c = in_groups_of(group, case_of_late_puts(ranks));
  c.config.arrival = arrival;
  return rounds_under(options, c);
}

TEST(exchange_groups, results_are_the_same_bits_however_puts_are_reordered) {
  for (const sim::schedule order : {sim::schedule::random, sim::schedule::priority})
    for (const arrival_policy arrival : {arrival_policy::epoch, arrival_policy::sentinel})
      for (std::uint64_t seed = 1; seed <= 25; ++seed) {
        EXPECT_EQ(run_under(late_puts(order, seed), 2, 1, arrival), "");
        EXPECT_EQ(run_under(late_puts(order, seed), 3, 2, arrival), "");
        EXPECT_EQ(run_under(late_puts(order, seed), 4, 2, arrival), "");
      }
}

TEST(exchange_groups, a_word_that_overtakes_its_messages_is_exposed_by_some_schedule) {
  expect_exposed_without_fences(
      [](const sim::options& options) { return run_under(options, 2, 1, arrival_policy::epoch); });
}

std::vector<stuck::details> run_until_stuck(const exchange_case& c, const sim::options& options) {
  auto ranks = make_ranks(simulated_worlds(c.ranks, options), c.config);
  return run_until_stuck(ranks, c);
}

TEST(exchange_groups, a_rank_that_is_lost_is_named_by_every_survivor_at_the_same_place) {
  expect_lost_ranks_named_at("dispatch.arrival",
                             [](int group, const exchange_case& c) { return in_groups_of(group, c); });
}

TEST(exchange_groups, processes_put_into_each_others_memory_and_name_one_that_is_killed) {
  const auto results = in_worlds_of_three(5000, 2, [&](int nth, int rank, const std::string& run) {
    set_launch_environment(rank, 3, run);
    const exchange_case c = in_groups_of(nth + 1, {3, sizes(6, 6, 64, 5), {5, 5, 5}, routing::distinct});
    exchange_rank mine{expert_parallel::create(world::from_environment(device_kind::cpu), c.config)};
    expect_no_error(run_rank(c, mine, 1));
    mine.ranks().synchronize();
    if (rank == 1) ::kill(::getpid(), SIGKILL);
    mine.load(draw_inputs(c, 2)[static_cast<std::size_t>(rank)]);
    mine.dispatch_async();
    mine.dispatch_wait();
    try {
      mine.ranks().synchronize();
    } catch (const stuck& e) {
      return e.where.peer == 1 && e.where.epoch == 2 && e.where.site == "dispatch.arrival";
    }
    return false;
  });
  for (std::size_t i = 0; i < results.size(); ++i)
    EXPECT_EQ(results[i].exit_code, i % 3 == 1 ? 128 + SIGKILL : 0)
        << "world " << i / 3 << ", rank " << i % 3 << ": " << results[i].thrown;
}

TEST(exchange_groups, send_buffers_are_counted_where_they_are_used) {
  const ep_config one_group = sizes(8, 2, 64, 6);
  ep_config c = one_group;
  c.p2p_group_size = 4;
  EXPECT_EQ(workspace_bytes(c, 4).total(), workspace_bytes(one_group, 4).total());
  c.p2p_group_size = 2;
  // 16 bytes of each message say where it is from; 4 * 6 * 2 rows come at most.
  const std::size_t sent = 6 * 2 * (64 * 2 + 16) + 4 * 6 * 2 * 64 * 2;
  const std::size_t more = workspace_bytes(c, 4).window - workspace_bytes(one_group, 4).window;
  EXPECT_GE(more, sent);
  EXPECT_LT(more, sent + 256);
  EXPECT_EQ(workspace_bytes(c, 4).local, workspace_bytes(one_group, 4).local);
}

/// Messages of 14 KB for each choice of 65,536 tokens are more than 2 GiB.
TEST(exchange_groups, send_buffers_may_be_larger_than_32_bits_count) {
  peer_puts::messages all{};
  all.send_buffer = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 44);
  all.bytes = 14'352;
  all.near = {0, 1};
  EXPECT_EQ(all.of(1, 500'000).at - all.send_buffer, std::int64_t{500'000} * 14'352);
}

}  // namespace
}  // namespace baton::test
