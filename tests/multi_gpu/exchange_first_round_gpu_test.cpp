// A rank's whole round, enqueued by one thread before the next rank's begins, as the first that a process runs: no kernel of it
// may need code that is not on the device yet, since loading some may wait for the dispatch that waits for the next rank. Each of
// these says something only in a process of its own, as ctest runs them.
#include <tuple>
#include <vector>

#include "baton/device_buffer.hpp"
#include "tests/support/exchange_cases.hpp"
#include "tests/support/gpu_count.hpp"

namespace baton::test {
namespace {

class exchange_first_round_gpu : public testing::TestWithParam<std::tuple<token_format, ep_transfer>> {};

void expect_ranks_can_be_enqueued_one_after_the_other(exchange_case c) {
  BATON_REQUIRE_GPUS(2);
  auto ranks = make_ranks(world::local(2, device_kind::cuda), c.config);
  const auto inputs = draw_inputs(c, 1);
  std::vector<device_buffer<bfloat16>> expert_outputs;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    ranks[r].load(inputs[r]);
    const auto rows = static_cast<std::size_t>(ranks[r].ep().room().max_rows);
    expert_outputs.emplace_back(ranks[r].ranks(), rows * static_cast<std::size_t>(c.config.hidden));
  }
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    ranks[r].dispatch();
    ranks[r].combine(expert_outputs[r].data());
  }
  for (auto& r : ranks) {
    EXPECT_NO_THROW(r.read_output());
    EXPECT_NO_THROW(r.ep().check());
  }
}

exchange_case first_round(token_format format, ep_transfer transfer) {
  return per_rank({2, sizes(24, 4, 256, 40), {40, 33}, routing::sparse}, format, transfer);
}

TEST_P(exchange_first_round_gpu, ranks_are_enqueued_one_after_the_other) {
  const auto [format, transfer] = GetParam();
  expect_ranks_can_be_enqueued_one_after_the_other(first_round(format, transfer));
}

TEST_P(exchange_first_round_gpu, ranks_are_enqueued_one_after_the_other_with_weights_that_come_late) {
  const auto [format, transfer] = GetParam();
  exchange_case c = first_round(format, transfer);
  c.config.weights_at_combine = true;
  expect_ranks_can_be_enqueued_one_after_the_other(c);
}

INSTANTIATE_TEST_SUITE_P(cuda, exchange_first_round_gpu,
                         testing::Combine(testing::Values(token_format::blockwise_fp8, token_format::mxfp4),
                                          testing::Values(ep_transfer::lines, ep_transfer::chunks)));

}  // namespace
}  // namespace baton::test
