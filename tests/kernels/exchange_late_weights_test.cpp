// Router weights that are given to combine, with layout per_rank: ep_config::weights_at_combine.
#include <chrono>

#include "baton/error.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/exchange_cases.hpp"
#include "tests/support/local_members.hpp"
#include "tests/support/simulated_worlds.hpp"

namespace baton::test {
namespace {

exchange_case with_late_weights(exchange_case c) {
  c.config.weights_at_combine = true;
  return c;
}

class exchange_late_weights : public testing::TestWithParam<int> {};

TEST_P(exchange_late_weights, every_sum_has_the_bits_that_it_has_with_weights_given_to_dispatch) {
  const int num_ranks = GetParam();
  const auto worlds = world::local(num_ranks, device_kind::cpu);
  for (const named_case& c : conformance_cases(num_ranks)) {
    SCOPED_TRACE(c.name);
    std::vector<exchange_way> ways;
    for (const ep_transfer transfer : every_transfer) {
      for (const ep_rows rows : {ep_rows::by_expert, ep_rows::by_token}) {
        if (rows == ep_rows::by_token && num_ranks != 3) continue;
        const ep_config config =
            with_late_weights(per_rank(c.what, token_format::bf16, transfer, rows)).config;
        for (const calls how : {calls::apart, calls::fused})
          ways.push_back(
              {fmt::format("{}{}, {}", name(transfer), rows == ep_rows::by_token ? " by token" : "",
                           how == calls::apart ? "apart" : "fused"),
               config, how});
      }
    }
    expect_rounds_in_every_way(worlds, per_rank(c.what), ways);
  }
}

// On 8 ranks exchange_rows_of_expert gives combine its weights in half of its ways.
INSTANTIATE_TEST_SUITE_P(cpu, exchange_late_weights, testing::Values(1, 3));

/// What holds however tokens travel.
class exchange_late_weights_by : public testing::TestWithParam<ep_transfer> {
 protected:
  static exchange_case late(const exchange_case& c, token_format format = token_format::bf16) {
    return with_late_weights(per_rank(c, format, GetParam()));
  }
  static exchange_case three_ranks() { return late({3, sizes(11, 3, 64, 9), {9, 4, 7}, routing::sparse}); }
};

INSTANTIATE_TEST_SUITE_P(cpu, exchange_late_weights_by, testing::ValuesIn(every_transfer),
                         [](const auto& how) { return name(how.param); });

TEST_P(exchange_late_weights_by, sums_in_block_fp8_of_tokens_in_it_are_right_to_the_bit) {
  exchange_case c =
      late({3, sizes(9, 3, 384, 20), {20, 3, 11}, routing::distinct}, token_format::blockwise_fp8);
  c.config.combine_format = token_format::blockwise_fp8;
  auto ranks = make_ranks(world::local(3, device_kind::cpu), c.config);
  for (std::uint64_t seed = 1; seed <= 3; ++seed)
    EXPECT_EQ(run_round(c, ranks, seed, seed % 2 == 0 ? calls::apart : calls::fused), "");
}

TEST_P(exchange_late_weights_by, any_number_of_blocks_and_threads_gives_the_same_bits) {
  const auto worlds = world::local(3, device_kind::cpu);
  for (const auto& [sms, threads] : {std::pair{1, 96}, {5, 96}, {33, 160}}) {
    exchange_case c = late({3, sizes(10, 4, 264, 90), {90, 3, 0}, routing::distinct});
    c.config.num_sms = sms;
    c.config.num_threads = threads;
    auto ranks = make_ranks(worlds, c.config);
    for (std::uint64_t seed = 1; seed <= 2; ++seed)
      EXPECT_EQ(run_round(c, ranks, seed, calls::fused), "") << sms << " blocks of " << threads;
  }
}

TEST_P(exchange_late_weights_by, results_are_the_same_bits_for_every_seed_of_schedules) {
  for (const sim::schedule order : {sim::schedule::random, sim::schedule::priority})
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
      sim::options options;
      options.order = order;
      options.seed = seed;
      options.delay_stores = true;
      exchange_case c = three_ranks();
      c.config.num_sms = 2;
      auto ranks = make_ranks(simulated_worlds(3, options), c.config);
      for (std::uint64_t round = 1; round <= 4; ++round)
        ASSERT_EQ(run_round(c, ranks, round, round % 2 == 0 ? calls::apart : calls::fused), "")
            << "schedule seed " << seed;
    }
}

TEST_P(exchange_late_weights_by, rounds_with_other_tokens_and_weights_follow_each_other_on_the_same_words) {
  exchange_case c = three_ranks();
  auto ranks = make_ranks(world::local(3, device_kind::cpu), c.config);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const int n = static_cast<int>(seed);
    c.tokens = {n % 10, (n * 7) % 10, (n * 3 + 1) % 10};
    ASSERT_EQ(run_round(c, ranks, seed, seed % 3 == 0 ? calls::apart : calls::fused), "");
  }
}

TEST_P(exchange_late_weights_by, slots_in_flight_have_weights_of_their_own) {
  exchange_case c = three_ranks();
  c.config.num_slots = 3;
  auto slots = make_slots(world::local(3, device_kind::cpu), c.config, [](int, int) { return stream_ref{}; });
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    std::vector<std::vector<rank_inputs>> inputs;
    for (std::uint64_t s = 0; s < 3; ++s) inputs.push_back(draw_inputs(c, 10 * seed + s));
    std::vector<std::vector<received_copy>> got(3);
    for (std::size_t s = 0; s < 3; ++s)
      for (std::size_t r = 0; r < 3; ++r) {
        slots[s][r].load(inputs[s][r]);
        slots[s][r].dispatch_async();
      }
    for (const std::size_t s : {2u, 0u, 1u}) {
      for (auto& rank : slots[s]) rank.dispatch_wait();
      for (auto& rank : slots[s]) got[s].push_back(rank.read_received());
    }
    for (const std::size_t s : {1u, 2u, 0u})
      for (std::size_t r = 0; r < 3; ++r) slots[s][r].reply(got[s][r]);
    for (const std::size_t s : {0u, 1u, 2u}) {
      for (auto& rank : slots[s]) rank.combine_wait();
      const expected_round round{c, inputs[s]};
      for (std::size_t r = 0; r < 3; ++r)
        ASSERT_EQ(difference(expected_output(round, static_cast<int>(r)), slots[s][r].read_output()), "")
            << "slot " << s << ", rank " << r;
    }
  }
}

TEST_P(exchange_late_weights_by, ranks_leave_and_come_back_and_all_rounds_are_right) {
  local_ranks ranks{three_ranks()};
  EXPECT_EQ(ranks.run({0, 0b111}, 100), nothing_wrong(3));
  for (const ep_membership next : {ep_membership{1, 0b011}, {2, 0b010}, {7, 0b110}, {8, 0b111}, {9, 0b101}}) {
    EXPECT_EQ(ranks.set(next), nothing_wrong(3)) << "epoch " << next.epoch;
    EXPECT_EQ(ranks.run(next, 100 * next.epoch), nothing_wrong(3)) << "epoch " << next.epoch;
  }
}

TEST_P(exchange_late_weights_by, ranks_that_give_none_have_weights_of_1) {
  const exchange_case c = three_ranks();
  auto ranks = make_ranks(world::local(3, device_kind::cpu), c.config);
  auto inputs = draw_inputs(c, 1);
  for (float& weight : inputs[1].topk_weights) weight = 1.0f;
  const expected_round round{c, inputs};
  for (std::size_t r = 0; r < 3; ++r) {
    ranks[r].load(inputs[r]);
    ranks[r].options.gives_weights = r != 1;
    ranks[r].dispatch();
  }
  std::vector<received_copy> got;
  for (auto& rank : ranks) got.push_back(rank.read_received());
  for (std::size_t r = 0; r < 3; ++r) ranks[r].apply_experts(got[r]);
  for (auto& rank : ranks) rank.combine();
  for (std::size_t r = 0; r < 3; ++r)
    EXPECT_EQ(difference(expected_output(round, static_cast<int>(r)), ranks[r].read_output()), "") << r;
}

TEST_P(exchange_late_weights_by, a_rank_that_does_not_come_to_combine_is_named_with_what_was_awaited) {
  exchange_case c = late({3, sizes(6, 6, 64, 4), {4, 4, 4}, routing::distinct});
  const auto worlds = world::local(3, device_kind::cpu);
  for (const world& w : worlds) w.state().deadline = std::chrono::milliseconds{300};
  auto ranks = make_ranks(worlds, c.config);
  const auto inputs = draw_inputs(c, 1);
  for (std::size_t r = 0; r < 3; ++r) {
    ranks[r].load(inputs[r]);
    ranks[r].dispatch();
  }
  std::vector<received_copy> got;
  for (auto& rank : ranks) got.push_back(rank.read_received());
  for (const std::size_t r : {0u, 2u}) {
    ranks[r].apply_experts(got[r]);
    ranks[r].combine();
  }
  for (const std::size_t r : {0u, 2u}) {
    try {
      ranks[r].ranks().synchronize();
      ADD_FAILURE() << "rank " << r << " was not stuck";
    } catch (const stuck& e) {
      EXPECT_EQ(e.where.peer, 1);
      EXPECT_TRUE(says(e.what(), "combine.weights")) << e.what();
    }
  }
}

TEST(exchange_late_weights, weights_are_taken_in_one_place_and_refused_in_the_others) {
  for (const bool late : {false, true}) {
    exchange_case c = per_rank({1, sizes(4, 2, 64, 4), {4}, routing::distinct});
    c.config.weights_at_combine = late;
    auto ranks = make_ranks(world::local(1, device_kind::cpu), c.config);
    const auto inputs = draw_inputs(c, 1);
    ranks[0].load(inputs[0]);
    expert_parallel& ep = ranks[0].ep();
    const auto& in = inputs[0];
    std::vector<bfloat16> tokens = in.tokens,
                          answers(static_cast<std::size_t>(workspace_bytes(c.config, 1).local));
    std::vector<float> out(256);
    const dispatch_input given{.tokens = tokens.data(), .topk_idx = in.topk_idx.data(), .num_tokens = 4};
    dispatch_input weighted = given;
    weighted.topk_weights = in.topk_weights.data();
    const combine_input plain{.expert_output = answers.data()};
    combine_input with_weights = plain;
    with_weights.topk_weights = in.topk_weights.data();
    const auto message = [](auto call) -> std::string {
      try {
        call();
      } catch (const invalid_argument& e) {
        return e.what();
      }
      return {};
    };
    if (late) {
      EXPECT_TRUE(says(message([&] { ep.dispatch(weighted); }), "topk_weights: given to dispatch",
                       "weights_at_combine"));
      ep.dispatch(given);
    } else {
      ep.dispatch(weighted);
      EXPECT_TRUE(says(message([&] { ep.combine(with_weights, out.data()); }),
                       "topk_weights: given to combine", "weights_at_combine is false"));
    }
    ep.combine_async(late ? with_weights : plain);
    EXPECT_TRUE(says(message([&] { ep.combine_wait(in.topk_weights.data(), out.data()); }),
                     late ? "with layout per_rank" : "given to dispatch",
                     late ? "combine_async" : "combine_wait"));
    ep.combine_wait(nullptr, out.data());
    ranks[0].ranks().synchronize();
  }
}

TEST(exchange_late_weights, what_cannot_have_them_says_so) {
  ep_config c = per_rank({2, sizes(8, 2, 64, 4), {}, routing::distinct}).config;
  c.weights_at_combine = true;
  EXPECT_EQ(why_not(c, 2), "");
  c.p2p_group_size = 1;
  EXPECT_TRUE(says(why_not(c, 2), "weights_at_combine", "p2p_group_size"));
  c.p2p_group_size = 0;
  c.layout = ep_layout::per_expert;
  EXPECT_TRUE(says(why_not(c, 2), "weights_at_combine", "combine_wait"));
}

TEST(exchange_late_weights, take_8_bytes_of_window_for_each_choice_of_each_rank) {
  for (const ep_transfer transfer : every_transfer) {
    ep_config c =
        per_rank({4, sizes(16, 4, 64, 20), {}, routing::distinct}, token_format::bf16, transfer).config;
    const workspace_size before = workspace_bytes(c, 4);
    c.weights_at_combine = true;
    const workspace_size with = workspace_bytes(c, 4);
    EXPECT_EQ(with.local, before.local);
    EXPECT_LE(with.window - before.window, 4u * 20 * 4 * 8 + 256);
    EXPECT_GE(with.window - before.window, 4u * 20 * 4 * 8);
  }
}

}  // namespace
}  // namespace baton::test
