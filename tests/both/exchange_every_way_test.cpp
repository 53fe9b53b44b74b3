// Every kernel of the exchange, in a few rounds: what a build of the library makes of each. All cases of each stand in
// tests/kernels, which one build runs.
#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/exchange_cases.hpp"
#include "tests/support/fp8_back_cases.hpp"
#include "tests/support/local_members.hpp"
#include "tests/support/simulated_worlds.hpp"

namespace baton::test {
namespace {

/// One thing that a communicator may be asked for.
struct wish {
  std::string name;
  std::function<void(exchange_case&)> add;
};

std::vector<wish> every_wish() {
  return {
      {"plain", [](exchange_case&) {}},
      {"sums in fp8", [](exchange_case& c) { c.config.combine_format = token_format::blockwise_fp8; }},
      {"bf16 outputs", [](exchange_case& c) { c.bf16_output = true; }},
      {"shared experts", [](exchange_case& c) { c.shared_experts = true; }},
      {"weights at combine", [](exchange_case& c) { c.config.weights_at_combine = true; }},
      {"rows of experts", [](exchange_case& c) { c.config.rows_of_expert = 128; }},
      {"slots", [](exchange_case& c) { c.config.num_slots = 2; }},
      {"groups of two", [](exchange_case& c) { c.config.p2p_group_size = 2; }},
      {"two levels", [](exchange_case& c) { c.config.p2p_group_size = 2, c.config.levels = ep_levels::two; }},
  };
}

class exchange_every_way : public testing::TestWithParam<travel> {};

INSTANTIATE_TEST_SUITE_P(cpu, exchange_every_way, testing::ValuesIn(every_travel),
                         [](const auto& how) { return name(how.param); });

TEST_P(exchange_every_way, gives_the_rows_and_sums_of_the_reference) {
  int rounds = 0;
  for (const token_format format : {token_format::bf16, token_format::blockwise_fp8, token_format::mxfp8,
                                    token_format::mxfp4, token_format::nvfp4})
    for (const wish& wished : every_wish()) {
      SCOPED_TRACE(fmt::format("{}, {}", name(format), wished.name));
      exchange_case c =
          travelling(GetParam(), {4, sizes(13, 5, 128, 17), {3, 8, 0, 17}, routing::sparse}, format);
      wished.add(c);
      if (!why_not(c.config, c.ranks).empty()) continue;
      auto ranks = make_ranks(simulated_worlds(c.ranks, {}), c.config);
      for (auto& rank : ranks) rank.options.bf16_output = c.bf16_output;
      for (const calls how : {calls::fused, calls::apart}) {
        EXPECT_EQ(run_round(c, ranks, ++rounds, how), "");
      }
    }
  EXPECT_GE(rounds, 2 * 5) << "ways that are possible";
}

TEST(exchange_every_way, in_teams_and_with_many_parts_gives_the_sums_of_the_reference) {
  for (const travel how : {travel::in_chunks, travel::in_chunks_by_token})
    for (const named_case& of : {team_cases(3)[0], fp8_back_cases(3)[6]}) {
      SCOPED_TRACE(of.name);
      const exchange_case c = travelling(how, of.what);
      auto ranks = make_ranks(world::local(c.ranks, device_kind::cpu), c.config);
      EXPECT_EQ(run_round(c, ranks, 1, calls::fused), "");
    }
}

TEST(exchange_every_way, goes_on_without_a_rank_and_with_it_again) {
  for (const travel how : every_way_per_rank) {
    SCOPED_TRACE(name(how));
    local_ranks ranks{travelling(how, {3, sizes(11, 3, 64, 9), {9, 4, 7}, routing::sparse})};
    for (const ep_membership& next : {ep_membership{1, 0b101}, {2, 0b111}}) {
      ASSERT_EQ(ranks.set(next), nothing_wrong(3));
      EXPECT_EQ(ranks.run(next, next.epoch, 1), nothing_wrong(3));
    }
  }
}

}  // namespace
}  // namespace baton::test
