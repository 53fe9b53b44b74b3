// Who waits for whom: counted by the ranks' waits, put together, and a communicator's state as another thread sees it in a hang.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "baton/error.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/exchange_cases.hpp"
#include "tests/support/parsed_json.hpp"

namespace baton::test {
namespace {

using std::chrono::milliseconds;

peer_waits waits_of_rank(int rank, std::vector<peer_wait> peers) {
  return {rank, std::move(peers), milliseconds{1000}};
}

TEST(wait_matrix, ranks_are_put_together_in_any_order) {
  const std::vector<peer_waits> all{waits_of_rank(1, {{10, 1}, {20, 2}}),
                                    waits_of_rank(0, {{30, 3}, {40, 4}})};
  const wait_matrix m = matrix_of(all);
  EXPECT_EQ(m.num_ranks, 2);
  EXPECT_EQ(m.at(0, 1).ns, 40u);
  EXPECT_EQ(m.at(1, 0).waits, 1u);
}

TEST(wait_matrix, the_rank_that_others_wait_for_is_slow) {
  const wait_matrix m = matrix_of(std::vector<peer_waits>{waits_of_rank(0, {{0, 0}, {1, 1}, {50, 2}}),
                                                          waits_of_rank(1, {{3, 1}, {0, 0}, {60, 1}}),
                                                          waits_of_rank(2, {{2, 1}, {1, 1}, {900, 9}})});
  EXPECT_EQ(slowest(m).rank, 2);  // what it waited for itself does not count
  EXPECT_DOUBLE_EQ(slowest(m).share, 110.0 / 117);
  EXPECT_TRUE(says(to_text(m), "rank 2 is slow: 94 %", "waited, ms, for rank", "rank 1"));
}

TEST(wait_matrix, nobody_is_slow_where_ranks_are_alike_or_nobody_waits) {
  const wait_matrix alike = matrix_of(std::vector<peer_waits>{waits_of_rank(0, {{0, 0}, {10, 1}, {15, 2}}),
                                                              waits_of_rank(1, {{12, 1}, {0, 0}, {11, 1}}),
                                                              waits_of_rank(2, {{9, 1}, {12, 1}, {0, 0}})});
  EXPECT_EQ(slowest(alike).rank, -1);
  EXPECT_EQ(to_text(alike).find("slow"), std::string::npos);
  EXPECT_EQ(slowest(matrix_of(std::vector<peer_waits>{waits_of_rank(0, {{7, 1}})})).rank, -1);
  EXPECT_EQ(slowest(wait_matrix{}).rank, -1);
}

TEST(wait_matrix, ranks_that_are_not_those_of_a_world_are_refused) {
  const auto refused = [](const std::vector<peer_waits>& all) {
    return message_of<invalid_argument>([&] { matrix_of(all); });
  };
  EXPECT_TRUE(says(refused({waits_of_rank(0, {{}, {}}), waits_of_rank(0, {{}, {}})}), "of_ranks"));
  EXPECT_TRUE(says(refused({waits_of_rank(1, {{}})}), "of_ranks"));
  EXPECT_TRUE(says(refused({waits_of_rank(0, {{}, {}})}), "of_ranks"));
}

class waiting_ranks : public testing::TestWithParam<travel> {
 protected:
  static constexpr std::size_t ranks = 3, late = 1;
  static exchange_case usual() {
    return travelling(GetParam(), {3, sizes(9, 3, 128, 20), {20, 20, 20}, routing::distinct});
  }
  /// Ranks in threads of their own; the late one comes when it is let.
  struct round {
    std::vector<exchange_rank>& all;
    std::atomic<bool> let = false;
    std::vector<std::thread> threads = {};

    explicit round(std::vector<exchange_rank>& of, const exchange_case& c) : all{of} {
      const auto inputs = draw_inputs(c, 4);
      for (std::size_t r = 0; r < ranks; ++r) {
        all[r].load(inputs[r]);
        threads.emplace_back([this, r] {
          while (r == late && !let) std::this_thread::sleep_for(milliseconds{1});
          all[r].dispatch();
          all[r].ranks().synchronize();
        });
      }
    }
    /// Until ranks 0 and 2 wait for the late one.
    void until_they_wait() const {
      for (const std::size_t r : {0, 2})
        while (all[r].ep().dump_state().waits.empty()) std::this_thread::sleep_for(milliseconds{1});
    }
    void end() {
      let = true;
      for (std::thread& t : threads) t.join();
      for (auto& rank : all) rank.apply_experts(rank.read_received());
      for (auto& rank : all) rank.combine();
      for (auto& rank : all) rank.ranks().synchronize();
    }
  };
  static wait_matrix matrix(const std::vector<world>& worlds) {
    std::vector<peer_waits> all;
    for (const world& w : worlds) all.push_back(w.wait_times());
    return matrix_of(all);
  }
};

INSTANTIATE_TEST_SUITE_P(cpu, waiting_ranks,
                         testing::Values(travel::by_expert, travel::in_lines, travel::in_chunks,
                                         travel::by_flags),
                         [](const auto& how) { return name(how.param); });

TEST_P(waiting_ranks, a_rank_that_comes_late_is_named_by_the_others_waits) {
  const auto worlds = world::local(3, device_kind::cpu);
  const exchange_case c = usual();
  auto all = make_ranks(worlds, c.config);
  for (const world& w : worlds) w.reset_wait_times();
  round one{all, c};
  one.until_they_wait();
  std::this_thread::sleep_for(milliseconds{60});
  one.end();
  const wait_matrix m = matrix(worlds);
  EXPECT_EQ(slowest(m).rank, static_cast<int>(late)) << to_text(m);
  for (const int rank : {0, 2}) {
    EXPECT_GE(m.at(rank, late).ns, 30'000'000u) << to_text(m);  // half of what it is late at the least
    EXPECT_GT(m.at(rank, late).waits, 0u);
  }
  EXPECT_GE(worlds[0].wait_times().span, milliseconds{60});
}

TEST_P(waiting_ranks, counts_begin_again_when_they_are_told_to_and_hold_still_when_nobody_waits) {
  const auto worlds = world::local(3, device_kind::cpu);
  const exchange_case c = usual();
  auto all = make_ranks(worlds, c.config);
  round one{all, c};
  one.end();
  const auto total = [&] {
    std::uint64_t waits = 0;
    for (const peer_wait& w : matrix(worlds).cells) waits += w.waits;
    return waits;
  };
  EXPECT_EQ(total(), total());
  for (const world& w : worlds) w.reset_wait_times();
  EXPECT_EQ(total(), 0u);
  EXPECT_LT(worlds[0].wait_times().span, milliseconds{10'000});
}

TEST_P(waiting_ranks, another_thread_is_told_during_a_hang_who_has_not_come) {
  const auto worlds = world::local(3, device_kind::cpu);
  const exchange_case c = usual();
  auto all = make_ranks(worlds, c.config);
  for (const std::uint64_t seed : {1, 2}) EXPECT_EQ(run_round(c, all, seed, calls::fused), "");
  round one{all, c};
  one.until_they_wait();
  const auto before = std::chrono::steady_clock::now();
  const ep_state hanging = all[0].ep().dump_state(), absent = all[late].ep().dump_state();
  EXPECT_LT(std::chrono::steady_clock::now() - before, worlds[0].deadline() / 2);
  one.end();

  EXPECT_EQ(hanging.rank, 0);
  EXPECT_EQ(hanging.rounds_called, 3u);
  EXPECT_EQ(hanging.rounds_dispatched, 2u);
  EXPECT_EQ(hanging.rounds_combined, 2u);
  EXPECT_EQ(hanging.round(), 3u);
  EXPECT_FALSE(hanging.has_given_up);
  ASSERT_EQ(hanging.heard.size(), ranks);
  EXPECT_EQ(hanging.heard[late].dispatch, 2u);
  EXPECT_EQ(hanging.heard[2].dispatch, 3u);
  ASSERT_FALSE(hanging.waits.empty());
  for (const wait_in_progress& w : hanging.waits) {
    EXPECT_EQ(w.peer, static_cast<int>(late));
    EXPECT_EQ(w.round, 3u);
    EXPECT_TRUE(says(w.site, "dispatch."));
  }
  EXPECT_TRUE(says(to_text(hanging), "rank 0 of 3", "not heard of rank 1 (last: round 2)",
                   "for rank 1, round 3", "3 rounds begun"));
  EXPECT_EQ(absent.rounds_called, 2u);
  EXPECT_EQ(absent.due, "dispatch_async");
  EXPECT_TRUE(absent.waits.empty());
  EXPECT_TRUE(says(to_text(absent), "2 rounds begun, dispatch_async is due", "no warp waits for a peer"));

  const ep_state after = all[0].ep().dump_state();
  EXPECT_EQ(after.rounds_combined, 3u);
  EXPECT_TRUE(after.waits.empty()) << to_text(after);
}

TEST_P(waiting_ranks, a_rank_that_gave_up_says_so_in_json_too) {
  ::setenv("BATON_DEADLINE_MS", "1000", 1);
  const auto worlds = world::local(3, device_kind::cpu);
  ::unsetenv("BATON_DEADLINE_MS");
  const exchange_case c = usual();
  auto all = make_ranks(worlds, c.config);
  all[0].load(draw_inputs(c, 1)[0]);
  all[0].dispatch();
  EXPECT_THROW(worlds[0].synchronize(), stuck);
  const ep_state found = all[0].ep().dump_state();
  const auto json = parsed_json(to_json(found));
  EXPECT_EQ(json["rank"], 0);
  EXPECT_EQ(json["rounds_called"], 1);
  EXPECT_EQ(json["heard"].size(), ranks);
  EXPECT_FALSE(json["waits"].empty());  // what they waited for when they gave up
  EXPECT_TRUE(says(json["waits"][0]["site"], "dispatch."));
  EXPECT_EQ(json["due"], found.due);
}

}  // namespace
}  // namespace baton::test
