// Replicas of experts, and what a rank that hangs tells, on two GPUs of one process.
#include <chrono>
#include <thread>

#include "tests/cpu/says.hpp"
#include "tests/support/captured_round.hpp"
#include "tests/support/gpu_count.hpp"
#include "tests/support/replicated_case.hpp"

namespace baton::test {
namespace {

class exchange_replicas_gpu : public testing::TestWithParam<travel> {
 protected:
  static constexpr int logical = 24, physical = 33;
  static exchange_case usual() {
    return travelling(GetParam(), {2, sizes(physical, 8, 1408, 128), {128, 37}, routing::sparse},
                      token_format::blockwise_fp8);
  }
  static expert_placement placement(std::uint64_t seed) {
    return drawn_placement(logical, physical, 2, seed);
  }
  static std::vector<rank_inputs> logical_inputs(const exchange_case& c, std::uint64_t seed) {
    return draw_logical_inputs(c, logical, seed);
  }
};

INSTANTIATE_TEST_SUITE_P(cuda, exchange_replicas_gpu, testing::ValuesIn(every_travel),
                         [](const auto& how) { return name(how.param); });

TEST_P(exchange_replicas_gpu, each_choice_goes_to_the_replica_that_its_token_and_rank_say) {
  BATON_REQUIRE_GPUS(2);
  const auto worlds = world::local(2, device_kind::cuda);
  exchange_case c = usual();
  auto ranks = make_ranks(worlds, c.config);
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    const expert_placement p = placement(seed);
    c.weights_of = p.physical_to_logical;
    c.wide_ids = seed % 2 == 0;
    std::vector<device_map> maps;
    for (const world& w : worlds)
      maps.emplace_back(w, seed > 2 ? nearest_replicas(p, w.rank()) : tables_of(p));
    for (const calls how : {calls::fused, calls::apart})
      EXPECT_EQ(run_replicated_round(c, logical_inputs(c, seed), maps, ranks, how), "") << "seed " << seed;
  }
  for (auto& r : ranks) EXPECT_NO_THROW(r.ep().check());
}

TEST_P(exchange_replicas_gpu, a_captured_dispatch_goes_by_the_map_that_is_there_when_it_runs) {
  BATON_REQUIRE_GPUS(2);
  const auto worlds = world::local(2, device_kind::cuda);
  const exchange_case c = usual();
  std::vector<captured_rank> captured;
  auto ranks = make_captured_ranks(worlds, c.config, captured);
  std::vector<device_map> maps;
  for (const world& w : worlds) maps.emplace_back(w, tables_of(placement(0)));
  for (std::size_t r = 0; r < 2; ++r) ranks[r].options.replicas = maps[r].map();
  ASSERT_EQ(run_replicated_round(c, logical_inputs(c, 1), maps, ranks, calls::fused), "");
  std::vector<captured_rank> combines;
  ASSERT_NO_FATAL_FAILURE(combines = capture_apart(ranks, captured));
  for (std::uint64_t seed = 2; seed <= 50; ++seed) {
    const auto given = logical_inputs(c, seed);
    const replica_tables tables = tables_of(placement(seed));
    const auto inputs = with_replicas(given, c.config.top_k, {tables, tables});
    const expected_round round{c, inputs};
    std::vector<received_copy> got;
    for (std::size_t r = 0; r < 2; ++r) {
      ranks[r].load(given[r]);
      maps[r].become(tables, {captured[r].stream});
    }
    for (auto& rank : captured) ASSERT_EQ(cudaGraphLaunch(rank.graph, rank.stream), cudaSuccess);
    for (auto& rank : ranks) got.push_back(rank.read_received());
    for (std::size_t r = 0; r < 2; ++r) {
      ASSERT_EQ(difference(round, static_cast<int>(r), got[r]), "") << "replay " << seed;
      ranks[r].apply_experts(got[r]);
    }
    for (auto& rank : combines) ASSERT_EQ(cudaGraphLaunch(rank.graph, rank.stream), cudaSuccess);
    for (auto& rank : ranks) rank.read_output();
  }
  for (captured_rank& rank : combines) EXPECT_EQ(cudaGraphExecDestroy(rank.graph), cudaSuccess);
  destroy(captured);
}

TEST_P(exchange_replicas_gpu, ranks_that_have_all_tokens_each_make_their_own_experts_part_of_the_sums) {
  BATON_REQUIRE_GPUS(1);
  const exchange_case c = travelling(GetParam(), {1, sizes(24, 8, 1408, 128), {128}, routing::distinct},
                                     token_format::blockwise_fp8);
  for (const calls how : {calls::fused, calls::apart})
    EXPECT_EQ(run_ranks_alone(c, 3, how, device_kind::cuda), "");
}

TEST_P(exchange_replicas_gpu, a_rank_that_waits_is_asked_beside_its_kernels_and_names_who_is_late) {
  BATON_REQUIRE_GPUS(2);
  const auto worlds = world::local(2, device_kind::cuda);
  const exchange_case c = usual();
  std::vector<captured_rank> streams;  // of their own
  auto ranks = make_captured_ranks(worlds, c.config, streams);
  ASSERT_EQ(run_round(c, ranks, 1, calls::fused), "");
  for (const world& w : worlds) w.reset_wait_times();
  const auto inputs = draw_inputs(c, 2);
  for (std::size_t r = 0; r < 2; ++r) ranks[r].load(inputs[r]);
  ranks[0].dispatch();
  std::this_thread::sleep_for(std::chrono::milliseconds{100});
  const ep_state hanging = ranks[0].ep().dump_state(), absent = ranks[1].ep().dump_state();
  ranks[1].dispatch();
  for (auto& r : ranks) r.apply_experts(r.read_received());
  for (auto& r : ranks) r.combine();
  for (auto& r : ranks) r.read_output();
  EXPECT_TRUE(
      says(to_text(hanging), "rank 0 of 2", "not heard of rank 1 (last: round 1)", "for rank 1, round 2"))
      << to_text(hanging);
  ASSERT_FALSE(hanging.waits.empty());
  for (const wait_in_progress& w : hanging.waits) EXPECT_EQ(w.peer, 1) << to_text(hanging);
  EXPECT_EQ(absent.rounds_called, 1u);
  EXPECT_TRUE(absent.waits.empty()) << to_text(absent);
  const wait_matrix m = matrix_of(std::vector<peer_waits>{worlds[0].wait_times(), worlds[1].wait_times()});
  EXPECT_EQ(slowest(m).rank, 1) << to_text(m);
  EXPECT_GE(m.at(0, 1).ns, 50'000'000u) << to_text(m);
  EXPECT_TRUE(ranks[0].ep().dump_state().waits.empty());
  for (captured_rank& s : streams) EXPECT_EQ(cudaStreamDestroy(s.stream), cudaSuccess);
}

}  // namespace
}  // namespace baton::test
