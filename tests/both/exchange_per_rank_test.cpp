// Layout per_rank on the CPU: the conformance suite, fused and apart, and what differs from per_expert.
#include <fmt/format.h>

#include <map>
#include <set>
#include <tuple>

#include "baton/error.hpp"
#include "kernels/ep/per_rank/grid.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/exchange_cases.hpp"

namespace baton::test {
namespace {

class exchange_per_rank : public testing::TestWithParam<std::tuple<int, token_format>> {};

TEST_P(exchange_per_rank, every_row_and_every_sum_is_right_to_the_bit_however_tokens_travel_fused_and_apart) {
  const auto [num_ranks, format] = GetParam();
  const auto worlds = world::local(num_ranks, device_kind::cpu);
  for (const named_case& c : conformance_cases(num_ranks)) {
    SCOPED_TRACE(c.name);
    std::vector<exchange_way> ways;
    for (const ep_transfer transfer : every_transfer) {
      for (const ep_rows rows : {ep_rows::by_expert, ep_rows::by_token}) {
        if (rows == ep_rows::by_token && num_ranks != 3) continue;
        const ep_config config = per_rank(c.what, format, transfer, rows).config;
        if (!carries(transfer, format)) {
          EXPECT_TRUE(says(why_not(config, num_ranks), "does not travel by flags yet", name(format)));
          continue;
        }
        for (const calls how : {calls::apart, calls::fused})
          ways.push_back(
              {fmt::format("{}{}, {}", name(transfer), rows == ep_rows::by_token ? " by token" : "",
                           how == calls::apart ? "apart" : "fused"),
               config, how});
      }
    }
    expect_rounds_in_every_way(worlds, per_rank(c.what, format), ways);
  }
}

INSTANTIATE_TEST_SUITE_P(cpu, exchange_per_rank,
                         testing::Combine(testing::Values(1, 2, 3, 4, 8),
                                          testing::Values(token_format::bf16, token_format::blockwise_fp8)));

INSTANTIATE_TEST_SUITE_P(narrow, exchange_per_rank,
                         testing::Combine(testing::Values(3),
                                          testing::Values(token_format::mxfp8, token_format::mxfp4,
                                                          token_format::nvfp4)));

TEST(exchange_by_token, no_token_lies_twice_and_pointers_are_those_of_every_round) {
  for (const ep_transfer transfer : every_transfer) {
    const exchange_case c = per_rank({2, sizes(8, 4, 264, 20), {20, 9}, routing::repeated},
                                     token_format::bf16, transfer, ep_rows::by_token);
    auto ranks = make_ranks(world::local(2, device_kind::cpu), c.config);
    std::vector<received_tokens> first;
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      ASSERT_EQ(run_round(c, ranks, seed, calls::fused), "");
      for (std::size_t r = 0; r < 2; ++r) {
        const received_tokens& got = ranks[r].received();
        if (seed == 1) first.push_back(got);
        EXPECT_EQ(got.tokens, first[r].tokens);
        EXPECT_EQ(got.token_rows, first[r].token_rows);
        EXPECT_EQ(got.row_bytes % 16, 0);
        std::map<std::pair<int, int>, std::int32_t> places;
        std::set<std::int32_t> taken;
        for (int e = 0; e < got.num_local_experts; ++e)
          for (int row = got.row_offsets[e]; row < got.row_offsets[e] + got.row_counts[e]; ++row) {
            const source_info& from = got.sources[row];
            const std::int32_t at = got.token_rows[row];
            EXPECT_EQ(places.try_emplace({from.rank, from.token}, at).first->second, at);
            taken.insert(at);
          }
        EXPECT_EQ(taken.size(), places.size());
      }
    }
  }
}

/// What holds however tokens travel.
class exchange_per_rank_by : public testing::TestWithParam<ep_transfer> {
 protected:
  static exchange_case per_rank(const exchange_case& c) {
    return test::per_rank(c, token_format::bf16, GetParam());
  }
};

INSTANTIATE_TEST_SUITE_P(cpu, exchange_per_rank_by, testing::ValuesIn(every_transfer),
                         [](const auto& how) { return name(how.param); });

TEST_P(exchange_per_rank_by, any_number_of_blocks_and_threads_gives_the_same_bits) {
  const auto worlds = world::local(3, device_kind::cpu);
  for (const auto& [sms, threads] : {std::pair{1, 96}, {1, 128}, {5, 96}, {7, 256}, {33, 160}}) {
    exchange_case c = per_rank({3, sizes(10, 4, 264, 40), {40, 3, 0}, routing::distinct});
    c.config.num_sms = sms;
    c.config.num_threads = threads;
    auto ranks = make_ranks(worlds, c.config);
    for (std::uint64_t seed = 1; seed <= 2; ++seed)
      EXPECT_EQ(run_round(c, ranks, seed, calls::fused), "") << sms << " blocks of " << threads;
  }
}

TEST_P(exchange_per_rank_by, units_of_a_token_of_a_large_model_are_more_than_those_that_hold_weights) {
  const auto worlds = world::local(2, device_kind::cpu);
  using enum token_format;
  for (const auto& [format, hidden] :
       {std::pair{bf16, 7168}, {bf16, 4104}, {blockwise_fp8, 7168}, {blockwise_fp8, 8320}}) {
    exchange_case c = per_rank({2, sizes(9, 4, hidden, 3), {3, 2}, routing::distinct});
    c.config.format = format;
    auto ranks = make_ranks(worlds, c.config);
    EXPECT_EQ(run_round(c, ranks, 1, calls::fused), "");
  }
}

TEST_P(exchange_per_rank_by, tokens_that_nobody_wants_lie_between_wide_ones_that_somebody_does) {
  const auto worlds = world::local(2, device_kind::cpu);
  exchange_case c = per_rank({2, sizes(5, 2, 8320, 24), {24, 17}, routing::sparse});
  c.config.num_sms = 1;
  auto ranks = make_ranks(worlds, c.config);
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    auto inputs = draw_inputs(c, seed);
    for (rank_inputs& in : inputs)
      for (std::size_t i = 0; i < in.topk_idx.size(); ++i)
        if (i / 2 % 3 != 2) in.topk_idx[i] = -1;
    EXPECT_EQ(run_round(expected_round{c, inputs}, ranks, calls::fused), "") << seed;
  }
}

TEST_P(exchange_per_rank_by, ids_of_more_tokens_than_one_access_holds_are_all_there) {
  const auto worlds = world::local(2, device_kind::cpu);
  exchange_case c = per_rank({2, sizes(20, 8, 16, 90), {}, routing::distinct});
  auto ranks = make_ranks(worlds, c.config);
  // 224 ids are four lines. As many, one token more, and three times as many and a token less. By words 124 are an access.
  for (const auto& tokens : {std::vector{28, 29}, {84, 83}, {15, 16}, {31, 32}, {90, 0}}) {
    c.tokens = tokens;
    for (const calls how : {calls::fused, calls::apart})
      EXPECT_EQ(run_round(c, ranks, 1, how), "") << tokens[0] << " and " << tokens[1] << " tokens";
  }
}

/// What experts that return their rows as they are, all weighted with 1, add up to.
std::vector<bfloat16> rounded_identity_sums(const exchange_case& c, const rank_inputs& in, int rank) {
  const auto hidden = static_cast<std::size_t>(c.config.hidden), k = static_cast<std::size_t>(c.config.top_k);
  std::vector<bfloat16> out;
  for (std::size_t i = 0; i < in.tokens.size(); ++i) {
    float sum = 0.0f;
    for (int r = 0; r < c.ranks; ++r) {
      float part = 0.0f;
      for (std::size_t j = i / hidden * k; j < (i / hidden + 1) * k; ++j)
        if (rank_of_expert(c, in.topk_idx[j]) == r) part += static_cast<float>(in.tokens[i]);
      sum += r == rank ? part : static_cast<float>(bfloat16{part});
    }
    out.emplace_back(sum);
  }
  return out;
}

TEST_P(exchange_per_rank_by, ids_may_begin_at_any_of_them) {
  const exchange_case c = per_rank({2, sizes(9, 8, 16, 30), {30, 29}, routing::sparse});
  auto ranks = make_ranks(world::local(2, device_kind::cpu), c.config);
  const auto inputs = draw_inputs(c, 5);
  for (const std::size_t shift : {0, 1, 2, 3}) {
    std::vector<std::vector<std::int32_t>> ids(2);
    std::vector<std::vector<bfloat16>> out(2);
    std::vector<const void*> rows(2);
    for (std::size_t r = 0; r < 2; ++r) {
      const rank_inputs& in = inputs[r];
      ids[r].assign(shift, 0);
      ids[r].insert(ids[r].end(), in.topk_idx.begin(), in.topk_idx.end());
      rows[r] =
          ranks[r].ep().dispatch(in.tokens.data(), ids[r].data() + shift, nullptr, in.num_tokens).tokens;
    }
    for (std::size_t r = 0; r < 2; ++r) {
      out[r].assign(inputs[r].tokens.size(), bfloat16::from_bits(0x7fff));
      ranks[r].ep().combine(static_cast<const bfloat16*>(rows[r]), out[r].data());
    }
    for (auto& rank : ranks) rank.ranks().synchronize();
    for (std::size_t r = 0; r < 2; ++r)
      EXPECT_EQ(out[r], rounded_identity_sums(c, inputs[r], static_cast<int>(r)))
          << "rank " << r << ", ids " << shift << " places behind 16 bytes";
  }
}

TEST_P(exchange_per_rank_by, more_experts_of_a_rank_than_one_warp_numbers_at_once_have_their_rows) {
  const auto worlds = world::local(2, device_kind::cpu);
  exchange_case c = per_rank({2, sizes(600, 4, 16, 20), {20, 17}, routing::sparse});
  auto ranks = make_ranks(worlds, c.config);
  for (std::uint64_t seed = 1; seed <= 2; ++seed) EXPECT_EQ(run_round(c, ranks, seed, calls::fused), "");
}

TEST_P(exchange_per_rank_by, output_is_rounded_once_to_bf16_and_without_weights_each_is_1) {
  const exchange_case c = per_rank({3, sizes(8, 3, 488, 5), {5, 2, 0}, routing::sparse});
  auto ranks = make_ranks(world::local(3, device_kind::cpu), c.config);
  const auto inputs = draw_inputs(c, 11);
  std::vector<std::vector<bfloat16>> out(3);
  std::vector<const void*> rows(3);
  for (std::size_t r = 0; r < 3; ++r) {
    const rank_inputs& in = inputs[r];
    rows[r] = ranks[r].ep().dispatch(in.tokens.data(), in.topk_idx.data(), nullptr, in.num_tokens).tokens;
  }
  for (std::size_t r = 0; r < 3; ++r) {
    out[r].assign(inputs[r].tokens.size(), bfloat16::from_bits(0x7fff));
    ranks[r].ep().combine(static_cast<const bfloat16*>(rows[r]), out[r].data());
  }
  for (auto& rank : ranks) rank.ranks().synchronize();
  for (std::size_t r = 0; r < 3; ++r)
    EXPECT_EQ(out[r], rounded_identity_sums(c, inputs[r], static_cast<int>(r))) << "rank " << r;
}

TEST_P(exchange_per_rank_by, a_thousand_rounds_with_changing_routing_and_calls_need_no_reset) {
  const auto worlds = world::local(3, device_kind::cpu);
  exchange_case c = per_rank({3, sizes(7, 2, 16, 6), {6, 6, 6}, routing::sparse});
  auto ranks = make_ranks(worlds, c.config);
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    c.tokens = {static_cast<int>(seed % 7), static_cast<int>(seed / 7 % 7), static_cast<int>(seed / 49 % 7)};
    ASSERT_EQ(run_round(c, ranks, seed, seed % 3 == 0 ? calls::apart : calls::fused), "");
  }
}

TEST(exchange_per_rank_limits, as_many_tokens_as_a_block_can_keep_the_routing_of_and_a_reason_for_more) {
  ep_config c = sizes(256, 8, 7168, 2048);
  c.layout = ep_layout::per_rank;
  for (const ep_transfer transfer : {ep_transfer::lines, ep_transfer::flags}) {
    c.transfer = transfer;
    c.num_max_tokens_per_rank = 2048;
    EXPECT_EQ(why_not(c, 2), "");
    c.num_max_tokens_per_rank = 4096;
    EXPECT_TRUE(says(why_not(c, 2), "num_max_tokens_per_rank", "layout per_rank"));
  }
  for (const ep_transfer transfer : {ep_transfer::automatic, ep_transfer::chunks}) {
    c.transfer = transfer;
    EXPECT_EQ(why_not(c, 2), "");
  }
  c.transfer = ep_transfer::lines;
  c.num_max_tokens_per_rank = 1024;
  EXPECT_EQ(why_not(c, 8), "");
  for (const int threads : {96, 768}) {
    c.num_threads = threads;
    EXPECT_EQ(why_not(c, 8), "");
  }
  for (const int threads : {64, 800, 1024}) {
    c.num_threads = threads;
    EXPECT_TRUE(says(why_not(c, 8), "num_threads: " + std::to_string(threads), "[96, 768]"));
  }
}

TEST(exchange_per_rank_limits, automatic_takes_chunks_where_a_block_has_no_room_for_the_routing) {
  exchange_case c = per_rank({8, sizes(1024, 8, 8, 1024), {3, 0, 2, 1, 5, 0, 9, 4}, routing::sparse});
  EXPECT_EQ(transfer_of(c.config, 2), ep_transfer::lines);
  EXPECT_EQ(transfer_of(c.config, 8), ep_transfer::chunks);
  auto ranks = make_ranks(world::local(8, device_kind::cpu), c.config);
  for (const calls how : {calls::fused, calls::apart}) EXPECT_EQ(run_round(c, ranks, 1, how), "");
  c.config.transfer = ep_transfer::lines;
  EXPECT_TRUE(says(why_not(c.config, 8), "num_max_tokens_per_rank", "let tokens travel in chunks"));
}

TEST(exchange_per_rank_limits, what_is_served_has_room_for_every_number_of_tokens_blocks_and_threads) {
  for (const int num_ranks : {1, 2, 3, 8}) {
    ep_config c = sizes(256, 8, 7168, 1);
    c.layout = ep_layout::per_rank;
    c.transfer = ep_transfer::lines;
    while (why_not(c, num_ranks).empty()) ++c.num_max_tokens_per_rank;
    const int most = --c.num_max_tokens_per_rank;
    EXPECT_GT(most, 1000) << num_ranks << " ranks";
    const ep::per_rank::endpoint end{.s = {c.num_experts, num_ranks, 0, c.top_k, c.hidden, most, c.format},
                                     .windows = {}};
    for (const int tokens : {0, 1, most}) {
      for (const int threads : {0, 96, 768}) {
        for (const auto which : {ep::per_rank::half::both, ep::per_rank::half::send}) {
          const auto grid = ep::per_rank::grid_of_dispatch(end, {132, threads, which}, tokens);
          EXPECT_LE((ep::per_rank::dispatch_plan{end.s, grid.senders}.bytes), most_shared_bytes)
              << num_ranks << " ranks, " << tokens << " of " << most << " tokens, " << threads << " threads";
          EXPECT_LE(grid.threads(), 768);
        }
      }
    }
  }
}

TEST(exchange_per_rank_limits, a_hundred_tokens_of_eight_ranks_take_less_than_64_mib_of_window) {
  ep_config c = sizes(256, 8, 7168, 128);
  c.layout = ep_layout::per_rank;
  c.format = token_format::blockwise_fp8;
  EXPECT_LE(workspace_bytes(c, 8).window, std::size_t{64} << 20);
}

TEST(exchange_per_rank_calls, weights_are_given_once_and_at_dispatch) {
  const auto worlds = world::local(1, device_kind::cpu);
  ep_config c = sizes(4, 2, 16, 4);
  c.layout = ep_layout::per_rank;
  auto ranks = make_ranks(worlds, c);
  std::vector<float> weights(8), out(64);
  std::vector<bfloat16> rows(4096);
  expert_parallel& ep = ranks[0].ep();
  ep.dispatch_async(nullptr, nullptr, 0);
  ep.dispatch_wait();
  ep.combine_async(rows.data());
  EXPECT_THROW(ep.combine_wait(weights.data(), out.data()), invalid_argument);
  EXPECT_THROW(ep.combine_wait_unreduced(rows.data()), invalid_argument);
  ep.combine_wait(nullptr, out.data());
  EXPECT_NO_THROW(worlds[0].synchronize());
}

}  // namespace
}  // namespace baton::test
