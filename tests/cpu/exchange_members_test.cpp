// Ranks that go on without others in the same memory, and with them again.
#include <csignal>
#include <thread>

#include "baton/error.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/exchange_processes.hpp"
#include "tests/support/local_members.hpp"

namespace baton::test {
namespace {

exchange_case three_ranks(travel how) {
  return travelling(how, {3, sizes(11, 3, 64, 9), {9, 4, 7}, routing::sparse});
}

class exchange_members_by : public testing::TestWithParam<travel> {};

INSTANTIATE_TEST_SUITE_P(cpu, exchange_members_by, testing::ValuesIn(every_way_per_rank),
                         [](const auto& how) { return name(how.param); });

constexpr std::chrono::milliseconds short_deadline{1000};  // where somebody is awaited in vain

constexpr ep_membership all{0, 0b111};

TEST_P(exchange_members_by, ranks_leave_and_come_back_and_all_rounds_are_right) {
  local_ranks ranks{three_ranks(GetParam())};
  EXPECT_EQ(ranks.rank(1).ep().members(), all);
  EXPECT_EQ(ranks.run(all, 100), nothing_wrong(3));
  for (const ep_membership next :
       {ep_membership{1, 0b011}, {2, 0b010}, {7, 0b110}, {8, 0b111}, {9, 0b101}, {1000, 0b111}}) {
    EXPECT_EQ(ranks.set(next), nothing_wrong(3)) << "epoch " << next.epoch;
    EXPECT_EQ(ranks.run(next, 100 * next.epoch), nothing_wrong(3)) << "epoch " << next.epoch;
  }
}

TEST_P(exchange_members_by, a_round_that_was_under_way_in_any_slot_is_dropped) {
  exchange_case c = three_ranks(GetParam());
  c.config.num_slots = 2;
  const auto worlds = world::local(3, device_kind::cpu);
  std::vector<std::shared_ptr<expert_parallel>> eps;
  for (expert_parallel& ep : expert_parallel::create_all(worlds, c.config))
    eps.push_back(std::make_shared<expert_parallel>(std::move(ep)));
  std::vector<exchange_rank> first, second;
  for (const auto& ep : eps) {
    first.emplace_back(ep, stream_ref{}, 0);
    second.emplace_back(ep, stream_ref{}, 1);
  }
  const auto inputs = draw_inputs(c, 1);
  first[0].load(inputs[0]);
  first[0].dispatch_async();
  second[1].load(inputs[1]);
  second[1].dispatch_async();
  second[1].dispatch_wait();
  const ep_membership both{1, 0b011};
  const auto slots_of = [&](int r) {
    const auto rank = static_cast<std::size_t>(r);
    first[rank].ep().set_members(both);
    const std::string wrong = run_member(c, second[rank], both, 20, 2);
    return wrong.empty() ? run_member(c, first[rank], both, 30, 2) : wrong;
  };
  std::string wrong[2];
  std::thread other{[&] { wrong[1] = slots_of(1); }};
  wrong[0] = slots_of(0);
  other.join();
  EXPECT_EQ(wrong[0], "");
  EXPECT_EQ(wrong[1], "");
}

TEST_P(exchange_members_by, who_is_left_out_stays_so_when_memory_was_released) {
  local_ranks ranks{three_ranks(GetParam()), std::chrono::seconds{5}};
  const ep_membership two{4, 0b101};
  ASSERT_EQ(ranks.set(two), nothing_wrong(3));
  EXPECT_EQ(ranks.run(two, 1), nothing_wrong(3));
  on_every_rank(ranks.worlds, [&](int r) { ranks.rank(r).ep().release(); });
  on_every_rank(ranks.worlds, [&](int r) { ranks.rank(r).ep().reacquire(); });
  EXPECT_EQ(ranks.rank(0).ep().members(), two);
  EXPECT_EQ(ranks.run(two, 10), nothing_wrong(3));
  EXPECT_EQ(ranks.set({5, 0b111}), nothing_wrong(3));
  EXPECT_EQ(ranks.run({5, 0b111}, 20), nothing_wrong(3));
}

TEST(exchange_members, the_last_of_as_many_ranks_as_there_may_be_is_left_out) {
  local_ranks ranks{
      travelling(travel::in_lines, {8, sizes(11, 3, 64, 2), {1, 2, 0, 1, 2, 1, 0, 2}, routing::sparse})};
  const ep_membership without_last{1, 0x7f};
  ASSERT_EQ(ranks.set(without_last), nothing_wrong(8));
  EXPECT_EQ(ranks.run(without_last, 1, 2), nothing_wrong(8));
}

constexpr int hasty = 3000;  // ms: somebody is awaited in vain

/// A round that ends with stuck, and names the peer.
void miss(const exchange_case& c, exchange_rank& mine, int peer) {
  mine.load(draw_inputs(c, 2)[static_cast<std::size_t>(mine.ranks().rank())]);
  mine.dispatch();
  try {
    mine.ranks().synchronize();
  } catch (const stuck& e) {
    if (e.where.peer == peer) return;
    throw;
  }
  throw std::runtime_error{"nobody was missed"};
}

/// Worlds of three processes, one for each way, in which each rank goes on after two rounds of all: work(c, mine, rank).
template <class Work>
std::vector<rank_result> after_two_rounds(Work work) {
  return in_worlds_of_three(
      hasty, std::size(every_way_per_rank), [&](int nth, int rank, const std::string& run) {
        const exchange_case c = three_ranks(every_way_per_rank[static_cast<std::size_t>(nth)]);
        set_launch_environment(rank, 3, run);
        exchange_rank mine{expert_parallel::create(world::from_environment(device_kind::cpu), c.config)};
        expect_no_error(run_member(c, mine, all, 1, 2));
        work(c, mine, rank);
        return true;
      });
}

TEST(exchange_members_in_processes, survivors_of_a_killed_one_go_on_in_the_same_memory) {
  const auto results = after_two_rounds([](const exchange_case& c, exchange_rank& mine, int rank) {
    if (rank == 1) ::kill(::getpid(), SIGKILL);
    miss(c, mine, 1);
    const ep_membership survivors{1, 0b101};
    mine.ep().set_members(survivors);
    expect_no_error(run_member(c, mine, survivors, 10, 4));
  });
  for (std::size_t i = 0; i < results.size(); ++i)
    EXPECT_EQ(results[i].exit_code, i % 3 == 1 ? 128 + SIGKILL : 0)
        << name(every_way_per_rank[i / 3]) << ", rank " << i % 3 << ": " << results[i].thrown;
}

/// What the others sent it for the round in which they missed it is there; what it sends, they read no more.
void end_old_round(const exchange_case& c, exchange_rank& mine) {
  mine.load(draw_inputs(c, 2)[static_cast<std::size_t>(mine.ranks().rank())]);
  mine.dispatch();
  mine.reply(mine.read_received());
  mine.ranks().synchronize();
}

TEST(exchange_members_in_processes, what_a_late_one_still_sends_reaches_nobody_and_then_it_comes_back) {
  using clock = std::chrono::steady_clock;
  using std::chrono::milliseconds;
  const auto results = after_two_rounds([](const exchange_case& c, exchange_rank& mine, int rank) {
    const ep_membership two{1, 0b011}, again{2, 0b111};
    const auto missed = clock::now();
    if (rank == 2) {
      std::this_thread::sleep_until(missed + milliseconds{hasty + 500});
      end_old_round(c, mine);
    } else {
      miss(c, mine, 2);
      mine.ep().set_members(two);
      for (std::uint64_t seed = 10; seed < 30; ++seed) {
        std::this_thread::sleep_until(missed + milliseconds{hasty + 50 * static_cast<int>(seed - 10)});
        expect_no_error(run_member(c, mine, two, seed, 2));
      }
    }
    mine.ep().set_members(again);
    expect_no_error(run_member(c, mine, again, 200, 4));
  });
  for (std::size_t i = 0; i < results.size(); ++i)
    EXPECT_EQ(results[i].exit_code, 0)
        << name(every_way_per_rank[i / 3]) << ", rank " << i % 3 << ": " << results[i].thrown;
}

TEST(exchange_members, a_member_that_does_not_come_is_named_and_the_others_can_try_again) {
  local_ranks ranks{three_ranks(travel::in_lines), short_deadline};
  const ep_membership without_2{1, 0b111};
  const auto wrong = ranks.on_members({1, 0b011}, [&](int r) -> std::string {
    ranks.rank(r).ep().set_members(without_2);
    return "";
  });
  for (int r = 0; r < 2; ++r) {
    EXPECT_TRUE(says(wrong[static_cast<std::size_t>(r)], "at members.left for rank 2")) << wrong[0];
    EXPECT_EQ(ranks.rank(r).ep().members(), all);
  }
  EXPECT_TRUE(says(ranks.run({1, 0b001}, 5)[0], "This communicator is of no further use"));
  EXPECT_TRUE(says(ranks.set({1, 0b001})[0], "members.epoch: 1 on rank 0, expected more than 1"));
  const ep_membership two{2, 0b011};
  EXPECT_EQ(ranks.set(two), nothing_wrong(3));
  EXPECT_EQ(ranks.run(two, 10), nothing_wrong(3));
}

TEST(exchange_members, waits_of_a_round_that_was_dropped_are_forgotten) {
  local_ranks ranks{three_ranks(travel::in_lines), short_deadline};
  const ep_membership two{1, 0b011};
  EXPECT_EQ(ranks.on_members(two,
                             [&](int r) {
                               miss(ranks.c, ranks.rank(r), 2);
                               return ranks.rank(r).ep().dump_state().waits.empty() ? "waited for nobody"
                                                                                    : "";
                             }),
            nothing_wrong(3));
  ASSERT_EQ(ranks.set(two), nothing_wrong(3));
  for (int r = 0; r < 2; ++r) EXPECT_TRUE(ranks.rank(r).ep().dump_state().waits.empty());
}

TEST(exchange_members, who_is_left_out_stands_in_the_state_and_is_not_missed_there) {
  local_ranks ranks{three_ranks(travel::in_lines)};
  EXPECT_EQ(to_text(ranks.rank(0).ep().dump_state()).find("takes no part"), std::string::npos);
  ASSERT_EQ(ranks.set({6, 0b101}), nothing_wrong(3));
  const ep_state state = ranks.rank(0).ep().dump_state();
  EXPECT_TRUE(says(to_text(state), "not heard of rank 0 (last: round 0), rank 2 (last: round 0)",
                   "takes no part since epoch 6: rank 1"));
  EXPECT_TRUE(says(to_json(state), R"("members":{"epoch":6,"active_ranks":5})"));
}

TEST(exchange_members, ranks_that_are_given_different_members_are_told_which) {
  local_ranks ranks{three_ranks(travel::in_lines), short_deadline};
  const auto others = ranks.on_members({1, 0b011}, [&](int r) -> std::string {
    ranks.rank(r).ep().set_members({1, r == 0 ? 0b011u : 0b111u});
    return "";
  });
  EXPECT_TRUE(
      says(others[0],
           "rank 0 is given epoch 1 of ranks 0, 1, and rank 1 epoch 1 of ranks 0, 1, 2; give all the same"))
      << others[0];
  EXPECT_TRUE(says(others[1], "at members.left for rank 2")) << others[1];
  EXPECT_TRUE(says(ranks.run({1, 0b001}, 5)[0], "This communicator is of no further use"));
  const auto wrong = ranks.on_members(all, [&](int r) -> std::string {
    ranks.rank(r).ep().set_members({r == 1 ? 4u : 3u, 0b111});
    return "";
  });
  EXPECT_TRUE(says(wrong[0], "rank 0 is given epoch 3 of ranks 0, 1, 2, and rank 1 epoch 4 of ranks 0, 1, 2"))
      << wrong[0];
  EXPECT_EQ(ranks.rank(0).ep().members(), all);
  EXPECT_EQ(ranks.set({5, 0b111}), nothing_wrong(3));
  EXPECT_EQ(ranks.run({5, 0b111}, 1), nothing_wrong(3));
}

TEST(exchange_members, members_that_cannot_be_are_refused_and_rounds_go_on) {
  local_ranks ranks{three_ranks(travel::in_chunks)};
  const auto refusal = [&](const ep_membership& members) { return ranks.set(members)[0]; };
  EXPECT_TRUE(says(refusal({0, 0b111}), "members.epoch: 0 on rank 0, expected more than 0"));
  EXPECT_TRUE(says(refusal({std::uint64_t{1} << 55, 0b111}), "members.epoch: 36028797018963968 on rank 0"));
  EXPECT_TRUE(says(refusal({1, 0b1001}),
                   "members.active_ranks: 0x9 on rank 0, expected bits of 3 ranks, at most 0x7"));
  EXPECT_TRUE(says(ranks.on_members({1, 0b001},
                                    [&](int) -> std::string {
                                      ranks.rank(0).ep().set_members({1, 0b110});
                                      return "";
                                    })[0],
                   "members.active_ranks: 0x6 is without rank 0, which calls"));
  EXPECT_EQ(ranks.run(all, 1), nothing_wrong(3));
}

TEST(exchange_members, layout_per_expert_says_that_it_has_all_ranks) {
  local_ranks ranks{three_ranks(travel::by_expert)};
  EXPECT_TRUE(says(ranks.set({1, 0b011})[0], "with layout per_expert all ranks always take part"));
  EXPECT_EQ(ranks.run(all, 1), nothing_wrong(3));
}

}  // namespace
}  // namespace baton::test
