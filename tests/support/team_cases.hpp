#pragma once
// What combine in teams of warps is tested with: communicators for as many tokens as take it, whose sums travel in FP8, and few
// tokens.
#include <algorithm>

#include "kernels/ep/per_rank_chunks/cells.hpp"
#include "tests/support/exchange_cases.hpp"

namespace baton::test {

/// Of each rank's tokens two sums at least.
inline constexpr int least_tokens = ep::per_rank_chunks::chunk_settings{}.team_sums / 2, least_blocks = 66;

/// Sums in FP8, of whole blocks of columns.
inline ep_config in_fp8(ep_config c) {
  c.combine_format = token_format::blockwise_fp8;
  return c;
}

inline std::vector<named_case> team_cases(int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  std::vector<int> ragged(n), one_busy(n, 0);
  for (std::size_t r = 0; r < n; ++r) ragged[r] = (static_cast<int>(r) * 23 + 31) % 47;
  one_busy[n - 1] = 40;
  const std::vector<int> some(n, 30), none(n, 0);
  const auto t = least_tokens;
  return {
      {"usual", {ranks, in_fp8(sizes(16, 4, 384, t)), ragged, routing::distinct}},
      {"tokens_without_experts", {ranks, in_fp8(sizes(16, 2, 128, t)), some, routing::sparse}},
      {"all_to_one_rank", {ranks, in_fp8(sizes(16, 1, 128, t)), some, routing::one_expert}},
      {"all_of_one_rank", {ranks, in_fp8(sizes(16, 4, 128, t)), one_busy, routing::distinct}},
      {"more_rows_than_stages", {ranks, in_fp8(sizes(16, 16, 128, t)), some, routing::distinct}},
      {"repeated_ids", {ranks, in_fp8(sizes(16, 6, 128, t)), some, routing::repeated}},
      {"no_tokens", {ranks, in_fp8(sizes(16, 4, 128, t)), none, routing::distinct}},
  };
}

/// Many sums for each team, of other ranks' tokens and of its own: more than lanes, stages, slots and what is sent ahead.
inline std::vector<named_case> busy_team_cases() {
  const auto of = [](int ranks, int tokens) {
    const ep_config config = in_fp8(sizes(ranks, ranks, 128, std::max(least_tokens, tokens)));
    return exchange_case{ranks, config, std::vector<int>(static_cast<std::size_t>(ranks), tokens),
                         routing::distinct};
  };
  return {{"of_two_ranks", of(2, 4700)}, {"of_four_ranks", of(4, 600)}};
}

/// One row of each token, as wide as adders take at once, and wider.
inline std::vector<named_case> wide_team_cases(int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  const auto of = [&](int hidden) {
    return exchange_case{ranks, in_fp8(sizes(8, 1, hidden, least_tokens)), std::vector<int>(n, 5),
                         routing::distinct};
  };
  return {
      {"one_part", of(7168)},    {"several_parts", of(16384)}, {"adders_with_steps_of_their_own", of(1280)},
      {"fewer_steps", of(6272)}, {"no_steps", of(7296)},       {"a_last_part_of_few_columns", of(9344)}};
}

}  // namespace baton::test
