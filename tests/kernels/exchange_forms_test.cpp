// The forms in which callers have what they give to a round, for every way in which tokens travel.
#include <array>

#include "baton/error.hpp"
#include "baton/quantise.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/exchange_cases.hpp"

namespace baton::test {
namespace {

class exchange_forms : public testing::TestWithParam<travel> {
 protected:
  static exchange_case travelling(exchange_case c, token_format format = token_format::bf16) {
    return test::travelling(GetParam(), std::move(c), format);
  }
};

INSTANTIATE_TEST_SUITE_P(cpu, exchange_forms, testing::ValuesIn(every_travel),
                         [](const auto& how) { return name(how.param); });

TEST_P(exchange_forms, ids_of_64_bits_give_the_same_bits_as_those_of_32) {
  const auto worlds = world::local(3, device_kind::cpu);
  for (const token_format format : {token_format::bf16, token_format::blockwise_fp8}) {
    for (const int top_k : {3, 8}) {
      exchange_case c = travelling({3, sizes(11, top_k, 128, 40), {40, 3, 0}, routing::sparse}, format);
      c.wide_ids = true;
      auto ranks = make_ranks(worlds, c.config);
      for (const calls how : {calls::fused, calls::apart}) EXPECT_EQ(run_round(c, ranks, 1, how), "");
      for (auto& r : ranks) EXPECT_NO_THROW(r.ep().check());
    }
  }
}

TEST_P(exchange_forms, ids_beyond_32_bits_become_no_others_and_are_reported) {
  exchange_case c = travelling({2, sizes(8, 2, 64, 20), {20, 20}, routing::distinct});
  c.wide_ids = true;
  auto ranks = make_ranks(world::local(2, device_kind::cpu), c.config);
  const std::int64_t beyond = std::int64_t{1} << 32;
  const std::pair<std::int64_t, const char*> bad[] = {
      {beyond, "2147483647 or more"},       {beyond + 3, "2147483647 or more"},
      {3 - beyond, "-2147483648 or less"},  {beyond - 1, "2147483647 or more"},
      {-1 - beyond, "-2147483648 or less"}, {8, "8, outside [-1, 8)"},
      {-2, "-2, outside [-1, 8)"}};
  for (const auto& [id, told] : bad) {
    auto inputs = draw_inputs(c, 3);
    for (const std::size_t at : {9, 30}) {
      inputs[1].wide_ids[at] = id;
      inputs[1].topk_idx[at] = -1;
    }
    for (std::size_t r = 0; r < 2; ++r) ranks[r].load(inputs[r]);
    for (auto& r : ranks) r.dispatch();
    std::vector<received_copy> got;
    for (auto& r : ranks) got.push_back(r.read_received());
    for (std::size_t r = 0; r < 2; ++r) {
      EXPECT_EQ(difference({c, inputs}, static_cast<int>(r), got[r]), "") << id;
      ranks[r].apply_experts(got[r]);
    }
    for (auto& r : ranks) r.combine();
    for (std::size_t r = 0; r < 2; ++r)
      EXPECT_EQ(difference(expected_output({c, inputs}, static_cast<int>(r)), ranks[r].read_output()), "");
    EXPECT_NO_THROW(ranks[0].ep().check());
    try {
      ranks[1].ep().check();
      ADD_FAILURE() << id << " is not reported";
    } catch (const device_error& e) {
      EXPECT_TRUE(says(e.what(), "rank 1, token 4, choice 1", told)) << e.what();
    }
  }
}

TEST_P(exchange_forms, ids_of_64_bits_may_begin_at_any_of_them) {
  const exchange_case c = travelling({1, sizes(9, 8, 16, 30), {29}, routing::sparse});
  auto ranks = make_ranks(world::local(1, device_kind::cpu), c.config);
  const rank_inputs in = draw_inputs(c, 5)[0];
  for (const std::size_t shift : {0, 1}) {
    std::vector<std::int64_t> ids(shift, 0);
    ids.insert(ids.end(), in.topk_idx.begin(), in.topk_idx.end());
    ranks[0].load(in);
    ranks[0].dispatch_with({.tokens = in.tokens.data(), .topk_idx = ids.data() + shift, .num_tokens = 29});
    const received_copy got = ranks[0].read_received();
    EXPECT_EQ(difference({c, {in}}, 0, got), "") << shift;
    ranks[0].apply_experts(got);
    ranks[0].combine();
  }
}

TEST_P(exchange_forms, ids_of_64_bits_that_are_not_on_8_bytes_are_refused) {
  const exchange_case c = travelling({1, sizes(4, 2, 16, 2), {2}, routing::distinct});
  auto ranks = make_ranks(world::local(1, device_kind::cpu), c.config);
  alignas(16) std::byte memory[80]{};
  const auto* tokens = reinterpret_cast<const bfloat16*>(memory);
  const auto* ids = reinterpret_cast<const std::int64_t*>(memory + 4);
  try {
    ranks[0].ep().dispatch({.tokens = tokens, .topk_idx = ids, .num_tokens = 2});
    FAIL() << "not refused";
  } catch (const invalid_argument& e) {
    EXPECT_TRUE(says(e.what(), "topk_idx", "not aligned to 8 bytes")) << e.what();
  }
}

TEST_P(exchange_forms, tokens_that_are_given_in_the_format_arrive_bit_for_bit) {
  const auto worlds = world::local(3, device_kind::cpu);
  using enum token_format;
  for (const token_format format : {blockwise_fp8, mxfp8, mxfp4, nvfp4}) {
    for (const int hidden : {128, 1152, 7168}) {
      exchange_case c = travelling({3, sizes(11, 3, 128, 9), {9, 2, 0}, routing::sparse}, format);
      c.config.hidden = hidden;
      c.given_tokens = true;
      if (!carries(c.config.transfer, format)) continue;
      auto ranks = make_ranks(worlds, c.config);
      for (const calls how : {calls::fused, calls::apart})
        EXPECT_EQ(run_round(c, ranks, 1, how), "") << name(format) << ", hidden " << hidden;
      c.given_tokens = false;  // the next round may bring bf16
      c.wide_ids = true;
      EXPECT_EQ(run_round(c, ranks, 2, calls::fused), "") << name(format) << ", hidden " << hidden;
    }
  }
}

TEST_P(exchange_forms, what_quantise_writes_is_received_as_the_bf16_it_was_made_of) {
  const auto worlds = world::local(2, device_kind::cpu);
  exchange_case c =
      travelling({2, sizes(8, 3, 128, 9), {9, 2}, routing::distinct}, token_format::blockwise_fp8);
  auto ranks = make_ranks(worlds, c.config);
  const auto inputs = draw_inputs(c, 1);
  const auto hidden = static_cast<std::size_t>(c.config.hidden);
  std::vector<std::vector<std::uint8_t>> values(2);
  std::vector<std::vector<float>> scales(2);
  for (std::size_t r = 0; r < 2; ++r) {
    const rank_inputs& in = inputs[r];
    values[r].resize(in.tokens.size() + 16);
    scales[r].resize(in.tokens.size() / 128);
    auto* const at = values[r].data() + 15 - (reinterpret_cast<std::uintptr_t>(values[r].data()) + 15) % 16;
    quantise(worlds[r], in.tokens.data(), c.config.hidden, {.max_rows = in.num_tokens},
             {.format = token_format::blockwise_fp8, .values = at, .scales = scales[r].data()});
    ranks[r].load(in);
    ranks[r].dispatch_with({.tokens = quantised_tokens{at, scales[r].data()},
                            .topk_idx = in.topk_idx.data(),
                            .num_tokens = static_cast<int>(in.tokens.size() / hidden)});
  }
  for (std::size_t r = 0; r < 2; ++r)
    EXPECT_EQ(difference({c, inputs}, static_cast<int>(r), ranks[r].read_received()), "");
  for (std::size_t r = 0; r < 2; ++r) {  // ends the round
    ranks[r].apply_experts(ranks[r].read_received());
    ranks[r].combine();
  }
  for (auto& rank : ranks) EXPECT_EQ(rank.read_output().size() % hidden, 0u);
}

TEST_P(exchange_forms, tokens_that_are_given_in_no_format_of_the_communicator_are_refused) {
  const auto worlds = world::local(1, device_kind::cpu);
  alignas(16) const std::array<std::byte, 256> memory{};
  const std::array<std::int32_t, 2> ids{0, 1};
  const float input_scales[2] = {1.0f, 1.0f};
  const auto refused = [&](token_format format, const dispatch_input& in) -> std::string {
    const exchange_case c = travelling({1, sizes(4, 2, 128, 2), {1}, routing::distinct}, format);
    auto ranks = make_ranks(worlds, c.config);
    try {
      ranks[0].ep().dispatch(in);
    } catch (const invalid_argument& e) {
      return e.what();
    }
    return "not refused";
  };
  const quantised_tokens given{memory.data(), memory.data()};
  dispatch_input in{.tokens = given, .topk_idx = ids.data(), .num_tokens = 1};
  EXPECT_TRUE(says(refused(token_format::bf16, in), "tokens: quantised", "bf16"));
  in.tokens = quantised_tokens{memory.data() + 1, memory.data()};
  EXPECT_TRUE(says(refused(token_format::blockwise_fp8, in), "tokens:", "not aligned to 16 bytes"));
  in.tokens = quantised_tokens{memory.data(), memory.data() + 2};
  EXPECT_TRUE(says(refused(token_format::blockwise_fp8, in), "tokens.scales:", "not aligned to 4 bytes"));
  in.tokens = quantised_tokens{memory.data(), nullptr};
  EXPECT_TRUE(says(refused(token_format::blockwise_fp8, in), "tokens.scales: null"));
  in.tokens = given;
  in.input_scales = input_scales;
  EXPECT_TRUE(says(refused(token_format::blockwise_fp8, in), "input_scales", "bring their own"));
}

TEST_P(exchange_forms, experts_begin_at_multiples_of_the_alignment_that_was_asked_for) {
  const auto worlds = world::local(3, device_kind::cpu);
  for (const token_format format : {token_format::bf16, token_format::blockwise_fp8}) {
    for (const int alignment : {1, 2, 8, 64, 128}) {
      exchange_case c = travelling({3, sizes(11, 3, 128, 40), {40, 3, 0}, routing::sparse}, format);
      c.config.row_alignment = alignment;
      if (!why_not(c.config, 3).empty()) continue;
      auto ranks = make_ranks(worlds, c.config);
      EXPECT_EQ(run_round(c, ranks, 1, calls::fused), "") << name(format) << " on " << alignment;
    }
  }
}

TEST_P(exchange_forms, there_are_as_many_rows_as_the_worst_routing_takes_and_no_more) {
  const auto worlds = world::local(1, device_kind::cpu);
  // One rank: tokens to experts 0, 1, ... in turn fill as many experts as there are, the rest of them expert 0.
  for (const auto& [experts, tokens, alignment, rows] :
       {std::array{4, 4, 128, 512}, {8, 3, 128, 384}, {4, 129, 64, 320}, {4, 132, 64, 384}, {3, 7, 1, 7}}) {
    exchange_case c = travelling({1, sizes(experts, 1, 16, tokens), {tokens}, routing::one_expert});
    c.config.row_alignment = alignment;
    auto ranks = make_ranks(worlds, c.config);
    rank_inputs in = draw_inputs(c, 1)[0];
    for (int e = 0; e < experts && e < tokens; ++e) in.topk_idx[static_cast<std::size_t>(e)] = e;
    ranks[0].load(in);
    ranks[0].dispatch();
    const received_copy got = ranks[0].read_received();
    EXPECT_EQ(difference({c, {in}}, 0, got), "");
    EXPECT_EQ(got.row_offsets.back(), rows)
        << tokens << " tokens, " << experts << " experts on " << alignment;
    EXPECT_EQ(ranks[0].received().max_rows, rows);
  }
}

TEST_P(exchange_forms, the_host_is_told_the_rows_of_each_expert_and_loads_add_up) {
  const auto worlds = world::local(3, device_kind::cpu);
  exchange_case c =
      travelling({3, sizes(11, 3, 128, 40), {40, 3, 0}, routing::sparse}, token_format::blockwise_fp8);
  auto ranks = make_ranks(worlds, c.config);
  std::vector<std::vector<std::int32_t>> counts(3);
  std::vector<device_buffer<std::int64_t>> load;
  std::vector<std::vector<std::int64_t>> sums(3);
  for (std::size_t r = 0; r < 3; ++r) {
    const auto experts = static_cast<std::size_t>(ranks[r].ep().local_experts().count);
    counts[r].resize(experts + 2);
    sums[r].assign(experts, std::int64_t{1} << 40);
    load.emplace_back(worlds[r], std::span<const std::int64_t>{sums[r]});
    ranks[r].options.expert_load = load[r].data();
  }
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    for (std::size_t r = 0; r < 3; ++r) {
      std::fill(counts[r].begin(), counts[r].end(), -1);
      ranks[r].options.host_counts = seed == 3 ? nullptr : counts[r].data();
    }
    c.tokens[2] = static_cast<int>(seed);
    ASSERT_EQ(run_round(c, ranks, seed, seed % 2 == 0 ? calls::apart : calls::fused), "");
    for (std::size_t r = 0; r < 3; ++r) {
      const received_copy got = ranks[r].read_received();
      std::vector<std::int32_t> expected = got.row_counts;
      expected.push_back(got.row_offsets.back());
      if (seed == 3) expected.assign(expected.size(), -1);
      expected.push_back(-1);  // behind the array
      EXPECT_EQ(counts[r], expected) << "rank " << r << ", round " << seed;
      for (std::size_t e = 0; e < sums[r].size(); ++e) sums[r][e] += got.row_counts[e];
      EXPECT_EQ(load[r].to_host(), sums[r]) << "rank " << r << ", round " << seed;
    }
  }
}

TEST_P(exchange_forms, every_call_of_every_rank_may_take_another_number_of_sms) {
  const auto worlds = world::local(3, device_kind::cpu);
  exchange_case c = travelling({3, sizes(11, 3, 264, 40), {40, 3, 0}, routing::sparse});
  c.config.num_sms = 7;
  auto ranks = make_ranks(worlds, c.config);
  std::uint64_t seed = 1;
  for (const auto& sms : {std::array{1, 7, 3, 0}, {7, 1, 2, 5}, {0, 3, 1, 7}}) {
    for (std::size_t r = 0; r < 3; ++r) {
      ranks[r].options.dispatch_sms = sms[r];
      ranks[r].options.combine_sms = sms[r + 1];
    }
    for (const calls how : {calls::fused, calls::apart}) EXPECT_EQ(run_round(c, ranks, seed++, how), "");
  }
  ranks[0].options.dispatch_sms = 8;
  ranks[0].load(draw_inputs(c, 1)[0]);
  try {
    ranks[0].dispatch();
    FAIL() << "not refused";
  } catch (const invalid_argument& e) {
    EXPECT_TRUE(says(e.what(), "num_sms: 8", "[0, 7]")) << e.what();
  }
}

TEST_P(exchange_forms, a_call_takes_no_more_sms_than_it_says) {
  const auto worlds = world::local(2, device_kind::cpu);
  // All SMs of both ranks together are more warps than the CPU machine has.
  const bool in_chunks = GetParam() == travel::in_chunks || GetParam() == travel::in_chunks_by_token;
  exchange_case c = travelling({2, sizes(8, 2, 16, in_chunks ? 1024 : 4), {4, 3}, routing::distinct});
  c.config.num_sms = 1024;
  c.config.num_threads = in_chunks ? 512 : 768;
  auto ranks = make_ranks(worlds, c.config);
  for (auto& rank : ranks) rank.options = {.dispatch_sms = 2, .combine_sms = 3};
  for (const calls how : {calls::fused, calls::apart}) EXPECT_EQ(run_round(c, ranks, 1, how), "");
  for (auto& rank : ranks) rank.options = {};
  EXPECT_THROW(run_round(c, ranks, 1, calls::fused), error);
}

TEST_P(exchange_forms, what_a_call_asks_for_in_addition_is_refused_by_name) {
  const exchange_case c = travelling({1, sizes(4, 2, 16, 2), {2}, routing::distinct});
  auto ranks = make_ranks(world::local(1, device_kind::cpu), c.config);
  ranks[0].load(draw_inputs(c, 1)[0]);
  alignas(8) std::byte memory[64]{};
  const auto refused = [&](const auto& call) -> std::string {
    try {
      call();
    } catch (const invalid_argument& e) {
      return e.what();
    }
    return "not refused";
  };
  const auto dispatch = [&] { ranks[0].dispatch(); };
  ranks[0].options.dispatch_sms = -1;
  EXPECT_TRUE(says(refused(dispatch), "num_sms: -1", "[0, 2]"));
  ranks[0].options.dispatch_sms = 2;
  ranks[0].options.host_counts = reinterpret_cast<std::int32_t*>(memory + 2);
  EXPECT_TRUE(says(refused(dispatch), "host_counts:", "not aligned to 4 bytes"));
  ranks[0].options.host_counts = reinterpret_cast<std::int32_t*>(memory);
  ranks[0].options.expert_load = reinterpret_cast<std::int64_t*>(memory + 36);
  EXPECT_TRUE(says(refused(dispatch), "expert_load:", "not aligned to 8 bytes"));
  ranks[0].options.expert_load = nullptr;
  dispatch();  // nothing that was refused has begun the round
  ranks[0].apply_experts(ranks[0].read_received());
  ranks[0].options.combine_sms = 3;
  EXPECT_TRUE(says(refused([&] { ranks[0].combine(); }), "num_sms: 3", "[0, 2]"));
  ranks[0].options.combine_sms = 1;
  ranks[0].combine();
  EXPECT_NO_THROW(ranks[0].ranks().synchronize());
}

TEST_P(exchange_forms, received_tokens_are_no_experts_outputs_unless_they_lie_by_expert) {
  const exchange_case c = travelling({1, sizes(4, 2, 16, 2), {2}, routing::distinct});
  auto ranks = make_ranks(world::local(1, device_kind::cpu), c.config);
  ranks[0].load(draw_inputs(c, 1)[0]);
  ranks[0].dispatch();
  const auto* tokens = static_cast<const bfloat16*>(ranks[0].received().tokens);
  const bool by_token = c.config.rows == ep_rows::by_token;
  const std::string refused = message_of<invalid_argument>([&] { ranks[0].combine(tokens); });
  EXPECT_TRUE(says(refused, by_token ? "expert_output: the received tokens" : "nothing was thrown"));
  if (by_token) {
    ranks[0].apply_experts(ranks[0].read_received());
    EXPECT_NO_THROW(ranks[0].combine());  // the round goes on
  }
  EXPECT_NO_THROW(ranks[0].ranks().synchronize());
}

/// The peer has no tokens in the round between, and so waits for nothing but this rank's ids before it sends in the next one.
TEST_P(exchange_forms, received_tokens_hold_as_long_as_they_should_however_far_ahead_peers_are) {
  const auto worlds = world::local(2, device_kind::cpu);
  exchange_case c = travelling({2, sizes(4, 2, 128, 9), {0, 9}, routing::distinct});
  auto ranks = make_ranks(worlds, c.config);
  const auto round_of = [&](exchange_rank& rank, std::uint64_t seed) {
    rank.load(draw_inputs(c, seed)[static_cast<std::size_t>(rank.ranks().rank())]);
    rank.dispatch_async();
    rank.ranks().synchronize();
  };
  ASSERT_EQ(run_round(c, ranks, 1, calls::apart), "");
  const auto inputs = draw_inputs(c, 1);
  const exchange_case first = c;
  const expected_round expected{first, inputs};
  c.tokens = {0, GetParam() == travel::by_expert ? 9 : 0};
  round_of(ranks[1], 2);
  EXPECT_EQ(difference(expected, 0, ranks[0].read_received()), "") << "before the next dispatch_async";
  round_of(ranks[0], 2);
  if (GetParam() == travel::in_chunks_by_token) return;
  if (GetParam() !=
      travel::
          by_expert) {  // whose dispatch_wait waits for all ranks' counts, and combine_wait for all replies
    ranks[1].dispatch_wait();
    ranks[1].reply(ranks[1].read_received());
    ranks[1].combine_wait();
    c.tokens = {0, 9};
    round_of(ranks[1], 3);
  }
  EXPECT_EQ(difference(expected, 0, ranks[0].read_received()), "") << "before the next dispatch_wait";
}

/// Nothing of how a rank calls is another's business.
TEST_P(exchange_forms, every_rank_may_give_and_call_in_its_own_way_in_every_round) {
  const auto worlds = world::local(3, device_kind::cpu);
  exchange_case c = travelling({3, sizes(11, 3, 128, 60), {}, routing::sparse}, token_format::blockwise_fp8);
  c.config.num_sms = 9;
  c.config.row_alignment = 16;
  c.wide_ids = true;
  auto ranks = make_ranks(worlds, c.config);
  std::mt19937_64 random{7};
  const auto below = [&random](std::uint64_t n) { return static_cast<int>(random() % n); };
  for (int round = 0; round < 8; ++round) {
    c.tokens = {below(61), below(2) * 60, below(20)};
    auto inputs = draw_inputs(c, random());
    std::array<bool, 3> fused{};
    for (std::size_t r = 0; r < 3; ++r) {
      fused[r] = below(2) == 0;
      if (below(2) == 0) inputs[r].wide_ids.clear();
      for (int t = 0, n = below(2) * inputs[r].num_tokens; t < n; ++t)
        inputs[r].given.push_back(draw_encoded(c.config, random));
      ranks[r].options = {.dispatch_sms = below(10), .combine_sms = below(10)};
      ranks[r].load(inputs[r]);
      fused[r] ? ranks[r].dispatch() : ranks[r].dispatch_async();
    }
    for (std::size_t r = 0; r < 3; ++r)
      if (!fused[r]) ranks[r].dispatch_wait();
    const expected_round expected{c, inputs};
    std::vector<received_copy> got;
    for (auto& rank : ranks) got.push_back(rank.read_received());
    for (std::size_t r = 0; r < 3; ++r) {
      EXPECT_EQ(difference(expected, static_cast<int>(r), got[r]), "") << "round " << round << ", rank " << r;
      ranks[r].apply_experts(got[r]);
    }
    for (std::size_t r = 0; r < 3; ++r) fused[r] ? ranks[r].combine() : ranks[r].reply(got[r]);
    for (std::size_t r = 0; r < 3; ++r)
      if (!fused[r]) ranks[r].combine_wait();
    for (std::size_t r = 0; r < 3; ++r)
      EXPECT_EQ(difference(expected_output(expected, static_cast<int>(r)), ranks[r].read_output()), "")
          << "round " << round << ", rank " << r;
  }
}

}  // namespace
}  // namespace baton::test
