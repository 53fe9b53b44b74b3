#pragma once
// What combine in teams of warps is tested with: communicators for as many tokens as take it, whose sums travel in FP8, and few
// tokens.
#include <algorithm>

#include "kernels/ep/per_rank_chunks/cells.hpp"
#include "tests/support/exchange_cases.hpp"

namespace baton::test {

/// So many sums of a rank's tokens there may have to be: as many ranks as it has experts have one of a token, and two count.
constexpr int least_tokens_of(int ranks, int top_k) {
  constexpr int sums = ep::per_rank_chunks::chunk_settings{}.team_sums;
  const int of_token = std::max(2, std::min(ranks, top_k));
  return (sums + of_token - 1) / of_token;
}
inline constexpr int least_tokens = least_tokens_of(2, 1);
/// More than are few (grid.hpp), and so few that a team has work from few tokens, where each block takes a machine long.
inline constexpr int least_blocks = 66, few_blocks = 4,
                     few_teams = few_blocks * ep::per_rank_chunks::most_teams;

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
  const auto of = [ranks](int top_k, int hidden) {
    return in_fp8(sizes(16, top_k, hidden, least_tokens_of(ranks, top_k)));
  };
  return {
      {"usual", {ranks, of(4, 384), ragged, routing::distinct}},
      {"tokens_without_experts", {ranks, of(2, 128), some, routing::sparse}},
      {"all_to_one_rank", {ranks, of(1, 128), some, routing::one_expert}},
      {"all_of_one_rank", {ranks, of(4, 128), one_busy, routing::distinct}},
      {"more_rows_than_stages", {ranks, of(16, 128), some, routing::distinct}},
      {"repeated_ids", {ranks, of(6, 128), some, routing::repeated}},
      {"no_tokens", {ranks, of(4, 128), none, routing::distinct}},
  };
}

/// Many sums for each team of few blocks, of other ranks' tokens and of its own: more than lanes, stages, slots and what is sent
/// ahead.
inline std::vector<named_case> busy_team_cases() {
  const auto of = [](int ranks, int sums_of_team) {
    const ep_config config = in_fp8(sizes(ranks, ranks, 128, least_tokens_of(ranks, ranks)));
    return exchange_case{
        ranks, config,
        std::vector<int>(static_cast<std::size_t>(ranks), sums_of_team * few_teams + few_teams / 2),
        routing::distinct};
  };
  return {{"of_two_ranks", of(2, 35)}, {"of_four_ranks", of(4, 5)}};
}

/// One row of each token, as wide as adders take at once, and wider.
inline std::vector<named_case> wide_team_cases(int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  const auto of = [&](int hidden) {
    return exchange_case{ranks, in_fp8(sizes(8, 1, hidden, least_tokens)), std::vector<int>(n, 5),
                         routing::distinct};
  };
  return {
      {"one_part", of(7168)},    {"several_parts", of(14720)}, {"adders_with_steps_of_their_own", of(1280)},
      {"fewer_steps", of(6272)}, {"no_steps", of(7296)},       {"a_last_part_of_few_columns", of(9344)}};
}

}  // namespace baton::test
