#pragma once
// What a way back in block FP8 is tested with: rows of one block, of units and parts that end in the middle, of several parts;
// few addends and many.
#include "tests/support/team_cases.hpp"

namespace baton::test {

inline std::vector<named_case> fp8_back_cases(int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  std::vector<int> ragged(n);
  for (std::size_t r = 0; r < n; ++r) ragged[r] = (static_cast<int>(r) * 5 + 9) % 17;
  ragged[n - 1] = 0;
  const std::vector<int> three(n, 3);
  std::vector<named_case> all{
      {"usual", {ranks, sizes(16, 4, 1280, 17), ragged, routing::distinct}},
      {"one_block", {ranks, sizes(16, 4, 128, 17), ragged, routing::distinct}},
      {"a_whole_unit_of_lines", {ranks, sizes(16, 4, 384, 17), ragged, routing::sparse}},
      {"tokens_without_experts", {ranks, sizes(11, 2, 512, 17), ragged, routing::sparse}},
      {"more_addends_than_at_once", {ranks, sizes(24, 20, 256, 17), ragged, routing::distinct}},
      {"one_token", {ranks, sizes(16, 4, 640, 1), std::vector<int>(n, 1), routing::distinct}},
      {"several_parts", {ranks, sizes(8, 2, 8448, 3), three, routing::sparse}},
      {"many_scales_of_a_part", {ranks, sizes(8, 1, 4 * 6272, 3), three, routing::distinct}},
  };
  for (named_case& c : all) c.what.config.combine_format = token_format::blockwise_fp8;
  return all;
}

/// More scales of a part than lanes, in teams, for which a communicator needs memory for many tokens.
inline named_case many_scales_in_teams(int ranks) {
  const std::vector<int> three(static_cast<std::size_t>(ranks), 3);
  return {"many_scales_in_teams", {ranks, in_fp8(sizes(8, 1, 6272, least_tokens)), three, routing::distinct}};
}

}  // namespace baton::test
