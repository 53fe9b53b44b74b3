// What shared experts made of a rank's tokens, which combine adds, on two GPUs of one process.
#include "tests/support/gpu_count.hpp"
#include "tests/support/replayed_rounds.hpp"
#include "tests/support/shared_cases.hpp"
#include "tests/support/team_cases.hpp"

namespace baton::test {
namespace {

class exchange_shared_gpu : public testing::TestWithParam<travel> {};

INSTANTIATE_TEST_SUITE_P(cuda, exchange_shared_gpu, testing::ValuesIn(every_travel),
                         [](const auto& how) { return name(how.param); });

TEST_P(exchange_shared_gpu, is_the_last_addend_of_every_token_in_every_form_and_output) {
  BATON_REQUIRE_GPUS(2);
  const auto worlds = world::local(2, device_kind::cuda);
  for (named_case& c : shared_cases(2))
    for (const token_format format : {token_format::bf16, token_format::blockwise_fp8}) {
      SCOPED_TRACE(c.name);
      c.what.shared_experts = true;
      expect_shared_rounds(worlds, travelling(GetParam(), c.what, format));
    }
}

TEST_P(exchange_shared_gpu, is_what_lies_there_when_a_captured_round_is_replayed) {
  BATON_REQUIRE_GPUS(2);
  exchange_case c{2, sizes(24, 4, 1408, 40), {40, 33}, routing::sparse};
  c.shared_experts = true;
  c = travelling(GetParam(), std::move(c));
  if (c.config.rows == ep_rows::by_token) GTEST_SKIP() << "identity experts want rows by expert";
  expect_right_replays(c);
}

TEST(exchange_shared_gpu, is_the_last_addend_of_sums_in_teams_and_by_sentinels_too) {
  BATON_REQUIRE_GPUS(2);
  const auto worlds = world::local(2, device_kind::cuda);
  for (const auto& cases : {team_cases(2), wide_team_cases(2)})
    for (const named_case& c : cases) {
      SCOPED_TRACE(c.name);
      exchange_case shared = per_rank(c.what, token_format::bf16, ep_transfer::chunks);
      shared.shared_experts = true;
      expect_shared_rounds(worlds, shared);
    }
  exchange_case c =
      with({2, sizes(11, 3, 264, 9), {9, 4}, routing::sparse}, token_format::bf16, arrival_policy::sentinel);
  c.shared_experts = true;
  expect_shared_rounds(worlds, c);
}

}  // namespace
}  // namespace baton::test
