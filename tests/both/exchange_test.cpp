#include <thread>
#include <tuple>

#include "baton/error.hpp"
#include "tests/support/exchange_cases.hpp"
#include "tests/support/exchange_processes.hpp"

namespace baton::test {
namespace {

class exchange : public testing::TestWithParam<std::tuple<int, token_format>> {};

TEST_P(exchange, every_row_and_every_sum_is_right_to_the_bit_by_epochs_and_sentinels) {
  const auto [num_ranks, format] = GetParam();
  const auto worlds = world::local(num_ranks, device_kind::cpu);
  for (const named_case& c : conformance_cases(num_ranks)) {
    SCOPED_TRACE(c.name);
    const exchange_case epochs = with(c.what, format, arrival_policy::epoch);
    const ep_config sentinels = with(c.what, format, arrival_policy::sentinel).config;
    expect_rounds_in_every_way(
        worlds, epochs, {{"epochs", epochs.config, calls::apart}, {"sentinels", sentinels, calls::apart}});
  }
}

INSTANTIATE_TEST_SUITE_P(cpu, exchange,
                         testing::Combine(testing::Values(1, 2, 3, 4, 8),
                                          testing::Values(token_format::bf16, token_format::blockwise_fp8)));

INSTANTIATE_TEST_SUITE_P(narrow, exchange,
                         testing::Combine(testing::Values(2),
                                          testing::Values(token_format::mxfp8, token_format::mxfp4,
                                                          token_format::nvfp4)));

TEST(exchange_fused, one_call_for_two_with_weights_at_dispatch_gives_the_same) {
  const auto worlds = world::local(3, device_kind::cpu);
  const exchange_case c{3, sizes(10, 3, 64, 9), {9, 2, 0}, routing::sparse};
  auto ranks = make_ranks(worlds, c.config);
  for (std::uint64_t seed = 1; seed <= 2; ++seed) EXPECT_EQ(run_round(c, ranks, seed, calls::fused), "");
}

TEST(exchange_grid, any_number_of_blocks_and_threads_gives_the_same_bits) {
  const auto worlds = world::local(3, device_kind::cpu);
  for (const auto& [sms, threads] : {std::pair{1, 32}, {1, 128}, {5, 32}, {7, 96}, {33, 64}}) {
    exchange_case c{3, sizes(10, 4, 264, 40), {40, 3, 0}, routing::distinct};
    c.config.num_sms = sms;
    c.config.num_threads = threads;
    auto ranks = make_ranks(worlds, c.config);
    for (std::uint64_t seed = 1; seed <= 2; ++seed)
      EXPECT_EQ(run_round(c, ranks, seed), "") << sms << " blocks of " << threads;
  }
}

TEST(exchange_threads, ranks_driven_by_a_thread_each_meet_in_their_waits) {
  const auto worlds = world::local(4, device_kind::cpu);
  const exchange_case c{4, sizes(10, 3, 64, 9), {9, 2, 0, 7}, routing::distinct};
  std::vector<std::string> wrong(4, "did not finish");
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < 4; ++r) {
    threads.emplace_back([&, r] {
      exchange_rank mine{expert_parallel::create(worlds[r], c.config)};
      wrong[r] = run_rank(c, mine, 50);
    });
  }
  for (auto& t : threads) t.join();
  for (const std::string& w : wrong) EXPECT_EQ(w, "");
}

TEST(exchange_rounds, a_thousand_rounds_on_the_same_buffers_with_changing_routing_need_no_reset) {
  const auto worlds = world::local(3, device_kind::cpu);
  for (const arrival_policy arrival : {arrival_policy::epoch, arrival_policy::sentinel}) {
    exchange_case c{3, sizes(7, 2, 16, 6), {6, 6, 6}, routing::sparse};
    c.config.arrival = arrival;
    auto ranks = make_ranks(worlds, c.config);
    for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
      c.tokens = {static_cast<int>(seed % 7), static_cast<int>(seed / 7 % 7),
                  static_cast<int>(seed / 49 % 7)};
      ASSERT_EQ(run_round(c, ranks, seed), "");
    }
  }
}

}  // namespace
}  // namespace baton::test
