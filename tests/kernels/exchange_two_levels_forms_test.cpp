// Two levels beside one: tokens that are given as they travel, sums in block FP8 of larger groups, and what both have in common.
#include "tests/support/exchange_in_groups.hpp"
#include "tests/support/fp8_back_cases.hpp"

namespace baton::test::two_level_forms {
namespace {

constexpr ep_levels both_levels[] = {ep_levels::one, ep_levels::two};

exchange_case at_levels(ep_levels levels, int group, const exchange_case& c,
                        token_format format = token_format::bf16) {
  exchange_case all = per_rank(c, format, ep_transfer::automatic, c.config.rows);
  all.config.p2p_group_size = group;
  all.config.levels = levels;
  return all;
}
std::string said_of(const exchange_case& c) {
  return fmt::format("{} ranks in groups of {}, levels {}, {}, rows {}", c.ranks, c.config.p2p_group_size,
                     c.config.levels == ep_levels::two ? "two" : "one", name(c.config.format),
                     c.config.rows == ep_rows::by_token ? "by token" : "by expert");
}
/// Calls are fused, then apart.
void expect_right_rounds(std::span<const world> worlds, const exchange_case& c) {
  SCOPED_TRACE(said_of(c));
  auto ranks = make_ranks(worlds, c.config);
  for (const calls how : {calls::fused, calls::apart}) EXPECT_EQ(run_round(c, ranks, 1, how), "");
}
exchange_case given_to_four(ep_levels levels, int group, token_format format) {
  exchange_case c =
      at_levels(levels, group, {4, sizes(11, 3, 128, 9), {9, 2, 0, 5}, routing::sparse}, format);
  c.given_tokens = true;
  return c;
}

/// They may be of values that no cast of theirs would give again.
TEST(exchange_two_levels_forms, tokens_that_are_given_in_the_format_arrive_bit_for_bit) {
  using enum token_format;
  const auto worlds = world::local(4, device_kind::cpu);
  for (const token_format format : {blockwise_fp8, mxfp8, mxfp4, nvfp4})
    for (const ep_levels levels : both_levels)
      for (const int group : {1, 2}) expect_right_rounds(worlds, given_to_four(levels, group, format));
}

TEST(exchange_two_levels_forms, tokens_are_given_with_ids_of_64_bits) {
  const auto worlds = world::local(4, device_kind::cpu);
  for (const ep_levels levels : both_levels) {
    exchange_case c = given_to_four(levels, 2, token_format::mxfp8);
    c.wide_ids = true;
    c.config.rows = ep_rows::by_token;
    expect_right_rounds(worlds, c);
  }
}

TEST(exchange_two_levels_forms, tokens_are_given_in_two_slots) {
  const auto worlds = world::local(4, device_kind::cpu);
  for (const ep_levels levels : both_levels) {
    exchange_case c = given_to_four(levels, 2, token_format::blockwise_fp8);
    c.config.num_slots = 2;
    auto slots = make_slots(worlds, c.config, [](int, int) { return stream_ref{}; });
    for (std::uint64_t seed = 1; seed <= 4; ++seed)
      EXPECT_EQ(run_round(c, slots[seed % 2], seed, seed < 3 ? calls::fused : calls::apart), "")
          << said_of(c) << ", slot " << seed % 2;
  }
}

/// A group's sum is of its ranks' in their order, and each of these was rounded for the forwarder.
TEST(exchange_two_levels_forms, sums_in_fp8_are_right_to_the_bit_in_groups_of_three_and_of_four) {
  for (const auto& [ranks, group] : {std::pair{6, 3}, {8, 4}}) {
    const auto worlds = world::local(ranks, device_kind::cpu);
    for (const named_case& c : fp8_back_cases(ranks)) {
      SCOPED_TRACE(c.name);
      expect_right_rounds(worlds, at_levels(ep_levels::two, group, c.what));
    }
  }
}

/// A round of all ranks: what it gave them, and what they were sent.
struct results_of_ranks {
  std::vector<std::vector<float>> outputs;
  std::vector<received_copy> received;
};
results_of_ranks results_of(const exchange_case& c, calls how) {
  auto ranks = make_ranks(world::local(c.ranks, device_kind::cpu), c.config);
  for (exchange_rank& r : ranks) r.options.bf16_output = c.bf16_output;
  EXPECT_EQ(run_round(c, ranks, 7, how), "") << said_of(c);
  results_of_ranks all;
  for (exchange_rank& r : ranks) {
    all.outputs.push_back(r.read_output());
    all.received.push_back(r.read_received());
  }
  return all;
}

/// By expert with sums in bf16, by token with outputs in bf16, by expert with sums in FP8.
std::vector<exchange_case> ways_of(int ranks) {
  exchange_case usual{ranks, sizes(13, 5, 384, 17), {3, 8, 0, 17, 1, 16, 5, 9}, routing::sparse};
  usual.tokens.resize(static_cast<std::size_t>(ranks));
  std::vector<exchange_case> all(3, usual);
  all[1].config.rows = ep_rows::by_token;
  all[1].bf16_output = true;
  all[2].config.combine_format = token_format::blockwise_fp8;
  return all;
}

/// There the group's sum is its only rank's: that is rounded as one level rounds it.
TEST(exchange_two_levels_forms, in_groups_of_one_outputs_are_the_bits_of_one_level) {
  for (const int ranks : {2, 3, 4, 8})
    for (const exchange_case& c : ways_of(ranks))
      for (const calls how : {calls::fused, calls::apart}) {
        const exchange_case two = at_levels(ep_levels::two, 1, c);
        EXPECT_EQ(results_of(two, how).outputs, results_of(at_levels(ep_levels::one, 1, c), how).outputs)
            << said_of(two) << (how == calls::fused ? ", fused" : ", apart");
      }
}

/// Empty if these are the same rows, of the same experts and sources. Between experts there may be rows that nobody wrote.
std::string difference_of_rows(const received_copy& one, const received_copy& other) {
  if (one.row_counts != other.row_counts) return "row_counts";
  if (one.row_offsets != other.row_offsets) return "row_offsets";
  if (one.expert_ids != other.expert_ids) return "expert_ids";
  for (std::size_t e = 0; e < one.row_counts.size(); ++e)
    for (int i = one.row_offsets[e]; i < one.row_offsets[e] + one.row_counts[e]; ++i) {
      const auto row = static_cast<std::size_t>(i);
      const source_info &a = one.sources.at(row), &b = other.sources.at(row);
      if (a.rank != b.rank || a.token != b.token || a.topk_slot != b.topk_slot)
        return fmt::format("source of row {}", row);
      const auto begin = static_cast<std::ptrdiff_t>(row * one.row_bytes),
                 end = begin + static_cast<std::ptrdiff_t>(one.row_bytes);
      if (!std::equal(one.tokens.begin() + begin, one.tokens.begin() + end, other.tokens.begin() + begin))
        return fmt::format("row {}", row);
    }
  return {};
}

TEST(exchange_two_levels_forms, in_larger_groups_what_is_received_is_the_bits_of_one_level) {
  for (const auto& [ranks, group] : {std::pair{4, 2}, {6, 3}, {8, 2}, {8, 4}})
    for (const exchange_case& c : ways_of(ranks))
      for (const token_format format : {token_format::bf16, token_format::blockwise_fp8})
        for (const calls how : {calls::fused, calls::apart}) {
          const exchange_case two = at_levels(ep_levels::two, group, c, format);
          const auto here = results_of(two, how).received,
                     there = results_of(at_levels(ep_levels::one, group, c, format), how).received;
          for (std::size_t r = 0; r < here.size(); ++r)
            EXPECT_EQ(difference_of_rows(here[r], there[r]), "") << said_of(two) << ", rank " << r;
        }
}

}  // namespace
}  // namespace baton::test::two_level_forms
