// Sums that travel back in block FP8, on two GPUs of one process: what the reference says, to the bit, however they travel.
#include "tests/support/fp8_back_cases.hpp"
#include "tests/support/gpu_count.hpp"
#include "tests/support/replayed_rounds.hpp"
#include "tests/support/shared_cases.hpp"

namespace baton::test {
namespace {

constexpr token_format fp8 = token_format::blockwise_fp8;

class exchange_fp8_back_gpu : public testing::TestWithParam<travel> {};

INSTANTIATE_TEST_SUITE_P(cuda, exchange_fp8_back_gpu,
                         testing::ValuesIn(std::begin(every_travel) + 1, std::end(every_travel)),
                         [](const auto& how) { return name(how.param); });

TEST_P(exchange_fp8_back_gpu, every_sum_is_right_to_the_bit_in_every_form_and_output) {
  BATON_REQUIRE_GPUS(2);
  const auto worlds = world::local(2, device_kind::cuda);
  std::vector<named_case> cases = fp8_back_cases(2);
  if (GetParam() == travel::in_chunks || GetParam() == travel::in_chunks_by_token)
    cases.push_back(many_scales_in_teams(2));
  for (named_case& c : cases)
    for (const token_format format : {token_format::bf16, fp8})
      for (const bool shared : {false, true}) {
        SCOPED_TRACE(c.name);
        c.what.shared_experts = shared;
        expect_shared_rounds(worlds, travelling(GetParam(), c.what, format));
      }
}

TEST_P(exchange_fp8_back_gpu, replays_of_a_captured_round_give_the_same_bits) {
  BATON_REQUIRE_GPUS(2);
  exchange_case c{2, sizes(24, 4, 1408, 40), {40, 33}, routing::sparse};
  c.config.combine_format = fp8;
  c = travelling(GetParam(), std::move(c));
  if (c.config.rows == ep_rows::by_token) GTEST_SKIP() << "identity experts want rows by expert";
  expect_right_replays(c);
}

TEST(exchange_fp8_back_gpu, of_many_tokens_is_right_to_the_bit_by_warps_and_in_teams) {
  BATON_REQUIRE_GPUS(2);
  exchange_case c{2, sizes(64, 8, 7168, 4096), {4096, 1500}, routing::distinct};
  c.config.combine_format = fp8;
  for (const int num_sms : {0, 24})
    for (const ep_rows rows : {ep_rows::by_expert, ep_rows::by_token}) {
      exchange_case in_chunks = per_rank(c, token_format::bf16, ep_transfer::chunks, rows);
      in_chunks.config.num_sms = num_sms;
      expect_shared_rounds(world::local(2, device_kind::cuda), in_chunks);
    }
}

}  // namespace
}  // namespace baton::test
