#pragma once
// What combine is tested with when it adds what shared experts made: sums of few and of many addends, and of none.
#include "tests/support/exchange_cases.hpp"

namespace baton::test {

inline std::vector<named_case> shared_cases(int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  std::vector<int> ragged(n);
  for (std::size_t r = 0; r < n; ++r) ragged[r] = (static_cast<int>(r) * 5 + 9) % 17;
  ragged[n - 1] = 0;
  return {
      {"usual", {ranks, sizes(16, 4, 264, 17), ragged, routing::distinct}},
      {"tokens_without_experts", {ranks, sizes(11, 2, 128, 17), ragged, routing::sparse}},
      {"a_column_vector", {ranks, sizes(16, 4, 8, 17), ragged, routing::distinct}},
      {"more_addends_than_at_once", {ranks, sizes(24, 20, 128, 17), ragged, routing::distinct}},
      {"one_token", {ranks, sizes(16, 4, 264, 1), std::vector<int>(n, 1), routing::distinct}},
      {"several_parts", {ranks, sizes(8, 2, 8448, 3), std::vector<int>(n, 3), routing::sparse}},
  };
}

/// In each of these forms, in fp32 and in bf16.
inline void expect_shared_rounds(std::span<const world> worlds, exchange_case c,
                                 const std::vector<calls>& forms = {calls::fused, calls::apart}) {
  auto ranks = make_ranks(worlds, c.config);
  std::uint64_t seed = 1;
  for (const bool rounded : {false, true}) {
    c.bf16_output = rounded;
    for (auto& rank : ranks) rank.options.bf16_output = rounded;
    for (const calls how : forms)
      EXPECT_EQ(run_round(c, ranks, seed++, how), "") << (rounded ? "bf16" : "fp32");
  }
  for (auto& rank : ranks) EXPECT_NO_THROW(rank.ep().check());
}

}  // namespace baton::test
