// The exchange on 1, 2 and 4 GPUs of one process.
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <tuple>
#include <vector>

#include "baton/device_buffer.hpp"
#include "baton/error.hpp"
#include "tests/support/captured_round.hpp"
#include "tests/support/exchange_cases.hpp"
#include "tests/support/gpu_count.hpp"

namespace baton::test {
namespace {

class exchange_gpu : public testing::TestWithParam<std::tuple<int, token_format, arrival_policy>> {};

TEST_P(exchange_gpu, every_row_and_every_sum_is_right_to_the_bit) {
  const auto [num_ranks, format, arrival] = GetParam();
  BATON_REQUIRE_GPUS(num_ranks);
  const auto worlds = world::local(num_ranks, device_kind::cuda);
  for (const named_case& c : conformance_cases(num_ranks, 11)) {
    const exchange_case what = with(c.what, format, arrival);
    auto ranks = make_ranks(worlds, what.config);
    for (std::uint64_t seed = 1; seed <= 3; ++seed) EXPECT_EQ(run_round(what, ranks, seed), "") << c.name;
    for (auto& r : ranks) EXPECT_NO_THROW(r.ep().check());
  }
}

INSTANTIATE_TEST_SUITE_P(cuda, exchange_gpu,
                         testing::Combine(testing::Values(1, 2, 4),
                                          testing::Values(token_format::bf16, token_format::blockwise_fp8),
                                          testing::Values(arrival_policy::epoch, arrival_policy::sentinel)));

INSTANTIATE_TEST_SUITE_P(narrow, exchange_gpu,
                         testing::Combine(testing::Values(1, 2),
                                          testing::Values(token_format::mxfp8, token_format::mxfp4,
                                                          token_format::nvfp4),
                                          testing::Values(arrival_policy::epoch)));

TEST(exchange_gpu, scales_in_tiles_lie_as_products_want_them) {
  BATON_REQUIRE_GPUS(2);
  const auto worlds = world::local(2, device_kind::cuda);
  for (const token_format format : {token_format::mxfp8, token_format::mxfp4, token_format::nvfp4}) {
    for (const int hidden : {224, 7168}) {
      exchange_case c{2, sizes(5, 2, hidden, 150), {150, 40}, routing::sparse};
      c.config.format = format;
      c.config.tiled_scales = true;
      auto ranks = make_ranks(worlds, c.config);
      EXPECT_EQ(run_round(c, ranks, 1), "") << name(format) << ", hidden " << hidden;
    }
  }
}

TEST(exchange_gpu, ranks_that_share_a_gpu_are_right_too) {
  BATON_REQUIRE_GPUS(1);
  const int ranks_on_all = 2 * num_gpus() > 8 ? 8 : 2 * num_gpus();
  const auto worlds = world::local(ranks_on_all, device_kind::cuda);
  for (const named_case& c : conformance_cases(ranks_on_all)) {
    auto ranks = make_ranks(worlds, c.what.config);
    EXPECT_EQ(run_round(c.what, ranks, 1), "") << c.name;
  }
}

TEST(exchange_gpu, a_communicator_that_goes_while_rounds_are_queued_waits_for_them) {
  BATON_REQUIRE_GPUS(1);
  const auto worlds = world::local(1, device_kind::cuda);
  constexpr int experts = 8, tokens = 2048, hidden = 7168;
  std::vector<std::int32_t> chosen;
  for (int t = 0; t < tokens; ++t)
    for (const int e : {t % experts, (t + 1) % experts}) chosen.push_back(e);
  const device_buffer<std::int32_t> ids{worlds[0], chosen};
  const device_buffer<bfloat16> in{worlds[0], std::vector(std::size_t{tokens} * hidden, bfloat16{1.0f})};
  for (const ep_layout layout : {ep_layout::per_expert, ep_layout::per_rank}) {
    device_buffer<float> out{worlds[0], std::size_t{tokens} * hidden};
    {
      auto ep = expert_parallel::create(worlds[0], {.num_experts = experts,
                                                    .top_k = 2,
                                                    .hidden = hidden,
                                                    .num_max_tokens_per_rank = tokens,
                                                    .layout = layout});
      for (int round = 0; round < 30; ++round) {  // some milliseconds of work
        const received_tokens rows = ep.dispatch(in.data(), ids.data(), nullptr, tokens);
        ep.combine(static_cast<const bfloat16*>(rows.tokens), out.data());
      }
    }
    EXPECT_EQ(out.to_host(), std::vector(std::size_t{tokens} * hidden, 2.0f));
  }
}

TEST(exchange_gpu, any_number_of_blocks_and_threads_gives_the_same_bits) {
  BATON_REQUIRE_GPUS(2);
  const auto worlds = world::local(2, device_kind::cuda);
  for (const auto& [sms, threads] :
       {std::pair{1, 32}, {1, 1024}, {5, 96}, {24, 512}, {64, 1024}, {132, 256}}) {
    exchange_case c{2, sizes(64, 8, 2048, 300), {300, 13}, routing::distinct};
    c.config.num_sms = sms;
    c.config.num_threads = threads;
    auto ranks = make_ranks(worlds, c.config);
    EXPECT_EQ(run_round(c, ranks, 1), "") << sms << " blocks of " << threads;
  }
}

TEST(exchange_gpu, a_thousand_rounds_on_the_same_buffers_with_changing_routing_need_no_reset) {
  BATON_REQUIRE_GPUS(2);
  const int n = num_gpus() >= 4 ? 4 : 2;
  const auto worlds = world::local(n, device_kind::cuda);
  for (const arrival_policy arrival : {arrival_policy::epoch, arrival_policy::sentinel}) {
    exchange_case c{n, sizes(24, 4, 64, 40), std::vector<int>(static_cast<std::size_t>(n)), routing::sparse};
    c.config.arrival = arrival;
    auto ranks = make_ranks(worlds, c.config);
    for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
      for (std::size_t r = 0; r < c.tokens.size(); ++r)
        c.tokens[r] = static_cast<int>((seed * 7 + r * 13) % 41);
      ASSERT_EQ(run_round(c, ranks, seed), "");
    }
  }
}

/// out = sum of weight * token over the sent choices: what experts that return their rows give.
std::vector<float> identity_output(const exchange_case& c, const rank_inputs& in) {
  const auto hidden = static_cast<std::size_t>(c.config.hidden), k = static_cast<std::size_t>(c.config.top_k);
  std::vector<float> out(in.tokens.size(), 0.0f);
  for (std::size_t i = 0; i < in.topk_idx.size(); ++i) {
    if (in.topk_idx[i] < 0) continue;
    for (std::size_t h = 0; h < hidden; ++h) {
      float& sum = out[i / k * hidden + h];
      sum = std::fma(in.topk_weights[i], static_cast<float>(in.tokens[i / k * hidden + h]), sum);
    }
  }
  return out;
}

void enqueue_round(exchange_rank& rank) {
  rank.dispatch_async();
  rank.dispatch_wait();
  rank.combine_async(static_cast<const bfloat16*>(rank.received().tokens));
  rank.combine_wait();
}

TEST(exchange_gpu, a_captured_round_replayed_a_thousand_times_with_changing_inputs_stays_right) {
  BATON_REQUIRE_GPUS(2);
  const int n = num_gpus() >= 4 ? 4 : 2;
  const auto worlds = world::local(n, device_kind::cuda);
  for (const arrival_policy arrival : {arrival_policy::epoch, arrival_policy::sentinel}) {
    exchange_case c{n, sizes(24, 4, 64, 40), std::vector<int>(static_cast<std::size_t>(n), 40),
                    routing::sparse};
    c.config.arrival = arrival;
    std::vector<captured_rank> captured;
    auto ranks = make_captured_ranks(worlds, c.config, captured);
    auto inputs = draw_inputs(c, 1);
    for (std::size_t r = 0; r < captured.size(); ++r) {
      ranks[r].load(inputs[r]);
      ranks[r].ranks().synchronize({captured[r].stream});
      ASSERT_NO_FATAL_FAILURE(capture_round(ranks[r], captured[r], enqueue_round));
    }
    for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
      inputs = draw_inputs(c, seed);
      for (std::size_t r = 0; r < captured.size(); ++r) ranks[r].load(inputs[r]);
      for (auto& rank : captured) ASSERT_EQ(cudaGraphLaunch(rank.graph, rank.stream), cudaSuccess);
      for (std::size_t r = 0; r < captured.size(); ++r)
        ASSERT_EQ(difference(identity_output(c, inputs[r]), ranks[r].read_output()), "")
            << "replay " << seed << " rank " << r;
    }
    destroy(captured);
  }
}

TEST(exchange_gpu, a_rank_that_never_calls_leaves_survivors_that_return_and_name_it) {
  BATON_REQUIRE_GPUS(2);
  ::setenv("BATON_DEADLINE_MS", "300", 1);
  const auto worlds = world::local(2, device_kind::cuda);
  ::unsetenv("BATON_DEADLINE_MS");
  const exchange_case c{2, sizes(8, 2, 64, 6), {6, 6}, routing::distinct};
  auto ranks = make_ranks(worlds, c.config);
  ranks[0].load(draw_inputs(c, 1)[0]);
  ranks[0].dispatch_async();
  ranks[0].dispatch_wait();
  try {
    worlds[0].synchronize();
    FAIL() << "not stuck";
  } catch (const stuck& e) {
    EXPECT_EQ(e.where.peer, 1);
    EXPECT_EQ(e.where.site, "dispatch.arrival");
    EXPECT_GE(e.where.waited_ns, 300'000'000u);
    EXPECT_LT(e.where.waited_ns, 3'000'000'000u);
  }
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "the context survives";
}

}  // namespace
}  // namespace baton::test
