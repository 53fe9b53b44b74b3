// Replicas of experts in a round, for every way in which tokens travel.
#include "baton/error.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/replicated_case.hpp"

namespace baton::test {
namespace {

class exchange_replicas : public testing::TestWithParam<travel> {
 protected:
  /// 3 ranks; 8 logical experts in 11 physical ones, of which the ranks have 4, 4 and 3.
  static constexpr int logical = 8, physical = 11;
  static exchange_case usual(token_format format = token_format::bf16, routing ids = routing::sparse) {
    return travelling(GetParam(), {3, sizes(physical, 3, 128, 40), {40, 3, 0}, ids}, format);
  }
  static expert_placement placement(std::uint64_t seed) {
    return drawn_placement(logical, physical, 3, seed);
  }
  static std::vector<rank_inputs> logical_inputs(const exchange_case& c, std::uint64_t seed) {
    return draw_logical_inputs(c, logical, seed);
  }
  static std::vector<device_map> maps_of(const std::vector<world>& worlds, const expert_placement& p,
                                         bool nearest = false) {
    std::vector<device_map> maps;
    for (const world& w : worlds)
      maps.emplace_back(w, nearest ? nearest_replicas(p, w.rank()) : tables_of(p));
    return maps;
  }
};

INSTANTIATE_TEST_SUITE_P(cpu, exchange_replicas, testing::ValuesIn(every_travel),
                         [](const auto& how) { return name(how.param); });

TEST_P(exchange_replicas, each_choice_goes_to_the_replica_that_its_token_and_rank_say) {
  const auto worlds = world::local(3, device_kind::cpu);
  for (const token_format format : {token_format::bf16, token_format::blockwise_fp8}) {
    exchange_case c = usual(format);
    auto ranks = make_ranks(worlds, c.config);
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      const expert_placement p = placement(seed);
      c.weights_of = p.physical_to_logical;
      c.wide_ids = seed % 2 == 0;
      const auto maps = maps_of(worlds, p, seed > 2);
      for (const calls how : {calls::fused, calls::apart})
        EXPECT_EQ(run_replicated_round(c, logical_inputs(c, seed), maps, ranks, how), "") << "seed " << seed;
    }
    for (auto& r : ranks) EXPECT_NO_THROW(r.ep().check());
  }
}

TEST_P(exchange_replicas, ids_that_repeat_go_to_the_same_replica_of_a_token) {
  const auto worlds = world::local(3, device_kind::cpu);
  exchange_case c = usual(token_format::bf16, routing::repeated);
  const expert_placement p = placement(7);
  c.weights_of = p.physical_to_logical;
  auto ranks = make_ranks(worlds, c.config);
  EXPECT_EQ(run_replicated_round(c, logical_inputs(c, 5), maps_of(worlds, p), ranks, calls::fused), "");
}

TEST_P(exchange_replicas, rounds_with_a_map_and_rounds_without_may_take_turns) {
  const auto worlds = world::local(3, device_kind::cpu);
  exchange_case c = usual();
  auto ranks = make_ranks(worlds, c.config);
  const auto maps = maps_of(worlds, placement(3));
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    for (auto& r : ranks) r.options.replicas = {};
    EXPECT_EQ(seed % 2 == 0 ? run_round(c, ranks, seed, calls::fused)
                            : run_replicated_round(c, logical_inputs(c, seed), maps, ranks, calls::fused),
              "");
  }
}

TEST_P(exchange_replicas, a_map_that_is_overwritten_behind_a_round_is_the_next_ones) {
  const auto worlds = world::local(3, device_kind::cpu);
  exchange_case c = usual();
  auto ranks = make_ranks(worlds, c.config);
  auto maps = maps_of(worlds, placement(1));
  const expert_map before = maps[1].map();
  for (std::uint64_t seed = 2; seed <= 5; ++seed) {
    c.weights_of = placement(seed - 1).physical_to_logical;
    EXPECT_EQ(run_replicated_round(c, logical_inputs(c, seed), maps, ranks, calls::fused), "");
    for (auto& m : maps) m.become(tables_of(placement(seed)));
  }
  EXPECT_EQ(maps[1].map().logical_to_physical, before.logical_to_physical);
}

/// With layout per_expert choices are added up one by one, wherever their experts are.
TEST_P(exchange_replicas, with_per_expert_results_are_the_bits_that_they_are_without_replicas) {
  if (GetParam() != travel::by_expert) return;
  const auto worlds = world::local(3, device_kind::cpu);
  exchange_case with = usual(), without = usual();
  without.config.num_experts = logical;
  const expert_placement p = placement(2);
  with.weights_of = p.physical_to_logical;
  auto replicated = make_ranks(worlds, with.config), plain = make_ranks(worlds, without.config);
  const auto inputs = draw_inputs(without, 9);
  EXPECT_EQ(run_replicated_round(with, inputs, maps_of(worlds, p), replicated, calls::fused), "");
  EXPECT_EQ(run_round({without, inputs}, plain, calls::fused), "");
  for (std::size_t r = 0; r < 3; ++r)
    EXPECT_EQ(difference(plain[r].read_output(), replicated[r].read_output()), "") << "rank " << r;
}

TEST_P(exchange_replicas, loads_of_physical_experts_add_up_to_those_of_logical_ones) {
  const auto worlds = world::local(3, device_kind::cpu);
  exchange_case c = usual(token_format::bf16, routing::distinct);
  const expert_placement p = placement(4);
  c.weights_of = p.physical_to_logical;
  auto ranks = make_ranks(worlds, c.config);
  std::vector<device_buffer<std::int64_t>> load;
  for (std::size_t r = 0; r < 3; ++r) {
    load.emplace_back(worlds[r], static_cast<std::size_t>(ranks[r].ep().local_experts().count));
    ranks[r].options.expert_load = load[r].data();
  }
  std::vector<std::int64_t> expected(logical, 0), counted;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const auto inputs = logical_inputs(c, seed);
    for (const rank_inputs& in : inputs)
      for (const std::int32_t id : in.topk_idx) ++expected[static_cast<std::size_t>(id)];
    EXPECT_EQ(run_replicated_round(c, inputs, maps_of(worlds, p), ranks, calls::fused), "");
  }
  for (auto& of_rank : load)
    for (const std::int64_t rows : of_rank.to_host()) counted.push_back(rows);
  EXPECT_EQ(logical_loads(p, counted), expected);
}

TEST_P(exchange_replicas, what_a_map_makes_no_expert_of_counts_as_none_and_is_reported) {
  const auto worlds = world::local(3, device_kind::cpu);
  const exchange_case c = usual(token_format::bf16, routing::distinct);
  auto ranks = make_ranks(worlds, c.config);
  const expert_placement p = placement(1);
  const auto wide = static_cast<std::size_t>(p.max_replicas);
  const struct {
    const char* told;
    std::int32_t id, count,
        listed;  // the id; of logical expert 5, how many replicas there are, and its first
  } bad[] = {{"8, outside [-1, 8)", 8, 1, 0},
             {"10, outside [-1, 8)", 10, 1, 0},
             {"-2, outside [-1, 8)", -2, 1, 0},
             {"logical expert 5, of which", 5, -1, 0},
             {"logical expert 5, of which", 5, p.max_replicas + 1, 0},
             {"logical expert 5, of which", 5, 1, 11},
             {"logical expert 5, of which", 5, 1, -1}};
  for (const auto& b : bad) {
    auto inputs = logical_inputs(c, 3);
    for (auto& in : inputs)
      for (auto& id : in.topk_idx)
        if (id == 5) id = -1;
    inputs[1].topk_idx[7] = b.id;
    replica_tables tables = tables_of(p);
    tables.replica_counts[5] = b.count;
    tables.logical_to_physical[5 * wide] = b.listed;
    const device_map maps[] = {{worlds[0], tables}, {worlds[1], tables}, {worlds[2], tables}};
    for (auto& r : ranks) r.options.replicas = maps[static_cast<std::size_t>(r.ranks().rank())].map();
    auto physical_inputs = inputs;
    physical_inputs[1].topk_idx[7] = -1;
    physical_inputs =
        with_replicas(physical_inputs, c.config.top_k, {tables_of(p), tables_of(p), tables_of(p)});
    EXPECT_EQ(run_round({c, physical_inputs}, ranks, calls::fused, &inputs), "") << b.told;
    EXPECT_NO_THROW(ranks[0].ep().check());
    const std::string told = message_of<device_error>([&] { ranks[1].ep().check(); });
    EXPECT_TRUE(says(told, "rank 1, token 2, choice 1", b.told, "treated as -1"));
  }
}

TEST_P(exchange_replicas, ranks_that_have_all_tokens_each_make_their_own_experts_part_of_the_sums) {
  for (const token_format format : {token_format::bf16, token_format::blockwise_fp8}) {
    const exchange_case c =
        travelling(GetParam(), {1, sizes(11, 3, 128, 40), {40}, routing::distinct}, format);
    for (const calls how : {calls::fused, calls::apart})
      EXPECT_EQ(run_ranks_alone(c, 3, how, device_kind::cpu), "");
  }
}

TEST_P(exchange_replicas, maps_that_cannot_be_are_refused_by_name) {
  const auto worlds = world::local(3, device_kind::cpu);
  const exchange_case c = usual();
  auto ranks = make_ranks(worlds, c.config);
  ranks[0].load(logical_inputs(c, 1)[0]);
  const std::int32_t tables[2] = {0, 1};
  const auto refused = [&](const expert_map& map) {
    ranks[0].options.replicas = map;
    return message_of<invalid_argument>([&] { ranks[0].dispatch(); });
  };
  EXPECT_TRUE(says(refused({tables, nullptr, 1, 1}), "replicas.replica_counts: null"));
  EXPECT_TRUE(says(refused({nullptr, tables, 1, 1}), "replicas.logical_to_physical: null"));
  const auto* odd = reinterpret_cast<const std::int32_t*>(reinterpret_cast<const std::byte*>(tables) + 2);
  EXPECT_TRUE(says(refused({odd, tables, 1, 1}), "replicas.logical_to_physical:", "not aligned to 4 bytes"));
  EXPECT_TRUE(says(refused({tables, tables, 0, 1}), "replicas.num_logical: 0", "[1, 1024]"));
  EXPECT_TRUE(says(refused({tables, tables, 1025, 1}), "replicas.num_logical: 1025"));
  EXPECT_TRUE(says(refused({tables, tables, 1, 12}), "replicas.max_replicas: 12"));
}

}  // namespace
}  // namespace baton::test
