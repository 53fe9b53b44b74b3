// What a communicator says of the rows that it receives, before it has received any.
#include <gtest/gtest.h>

#include <vector>

#include "baton/error.hpp"
#include "baton/expert_parallel.hpp"

namespace baton {
namespace {

void expect_alike(const received_tokens& before, const received_tokens& after) {
  EXPECT_EQ(before.tokens, after.tokens);
  EXPECT_EQ(before.scales, after.scales);
  EXPECT_EQ(before.row_counts, after.row_counts);
  EXPECT_EQ(before.token_rows, after.token_rows);
  EXPECT_EQ(before.max_rows, after.max_rows);
  EXPECT_EQ(before.max_token_rows, after.max_token_rows);
  EXPECT_EQ(before.row_bytes, after.row_bytes);
  EXPECT_EQ(before.num_local_experts, after.num_local_experts);
  EXPECT_EQ(before.scales_layout, after.scales_layout);
}

class room_of_communicators : public testing::TestWithParam<ep_config> {};

TEST_P(room_of_communicators, is_what_dispatch_wait_returns_in_every_slot_and_round) {
  const std::vector<world> ranks = world::local(2, device_kind::cpu);
  std::vector<expert_parallel> moe = expert_parallel::create_all(ranks, GetParam());
  for (int slot = 0; slot < 2; ++slot)
    for (int round = 0; round < 2; ++round) {
      const dispatch_input nothing{
          .tokens = static_cast<const bfloat16*>(nullptr), .num_tokens = 0, .slot = slot};
      for (expert_parallel& one : moe) one.dispatch_async(nothing);
      for (const expert_parallel& one : moe) one.ranks().synchronize();
      std::vector<std::vector<bfloat16>> answers;
      for (expert_parallel& one : moe) {
        const received_tokens before = one.room(slot), after = one.dispatch_wait({}, slot);
        expect_alike(before, after);
        const auto rows = static_cast<std::size_t>(after.max_rows);
        answers.emplace_back(rows * static_cast<std::size_t>(after.hidden));
      }
      for (std::size_t r = 0; r < moe.size(); ++r)
        moe[r].combine_async({.expert_output = answers[r].data(), .slot = slot});
      for (expert_parallel& one : moe) one.combine_wait(nullptr, static_cast<float*>(nullptr), {}, slot);
      for (const expert_parallel& one : moe) one.ranks().synchronize();
    }
  EXPECT_THROW((void)moe[0].room(2), invalid_argument);
}

ep_config of_kind(ep_layout layout, ep_rows rows, ep_transfer transfer, token_format format) {
  return {.num_experts = 5,
          .top_k = 3,
          .hidden = 128,
          .num_max_tokens_per_rank = 8,
          .format = format,
          .layout = layout,
          .transfer = transfer,
          .rows = rows,
          .num_slots = 2};
}

INSTANTIATE_TEST_SUITE_P(
    cpu, room_of_communicators,
    testing::Values(
        of_kind(ep_layout::per_expert, ep_rows::by_expert, ep_transfer::automatic, token_format::bf16),
        of_kind(ep_layout::per_rank, ep_rows::by_expert, ep_transfer::lines, token_format::blockwise_fp8),
        of_kind(ep_layout::per_rank, ep_rows::by_token, ep_transfer::lines, token_format::mxfp4),
        of_kind(ep_layout::per_rank, ep_rows::by_token, ep_transfer::chunks, token_format::bf16)));

}  // namespace
}  // namespace baton
