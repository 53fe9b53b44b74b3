// Formats of fewer bits, for every way in which tokens travel: the bits of the rows, and where their scales lie.
#include <tuple>

#include "baton/error.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/exchange_cases.hpp"

namespace baton::test {
namespace {

exchange_case travelling_with(travel how, token_format format, int hidden, exchange_case c) {
  c = travelling(how, std::move(c), format);
  c.config.hidden = hidden;
  return c;
}

/// The ways of layout per_rank.
class exchange_formats : public testing::TestWithParam<std::tuple<travel, token_format>> {
 protected:
  static token_format format() { return std::get<1>(GetParam()); }
  static exchange_case travelling(exchange_case c, int hidden) {
    return travelling_with(std::get<0>(GetParam()), format(), hidden, std::move(c));
  }
};

INSTANTIATE_TEST_SUITE_P(cpu, exchange_formats,
                         testing::Combine(testing::Values(travel::in_lines, travel::in_chunks,
                                                          travel::in_lines_by_token,
                                                          travel::in_chunks_by_token),
                                          testing::Values(token_format::blockwise_fp8, token_format::mxfp8,
                                                          token_format::mxfp4, token_format::nvfp4)),
                         [](const auto& both) {
                           return std::string{name(std::get<0>(both.param))} + "_" +
                                  name(std::get<1>(both.param));
                         });

/// Values and scales of all rows, in order.
std::vector<std::uint8_t> bytes_of_rows(const received_copy& got, const format_facts& facts) {
  std::vector<std::uint8_t> all;
  const auto scale = static_cast<std::size_t>(facts.scale_bytes), values = got.row_bytes;
  const auto append_from = [&](const std::vector<std::uint8_t>& from, std::size_t at, std::size_t bytes) {
    for (std::size_t i = at; i < at + bytes; ++i) all.push_back(from[i]);
  };
  for (std::size_t e = 0; e < got.row_counts.size(); ++e)
    for (int row = got.row_offsets[e]; row < got.row_offsets[e] + got.row_counts[e]; ++row) {
      append_from(got.tokens, static_cast<std::size_t>(row) * values, values);
      for (int b = 0; b < got.places.blocks; ++b)
        append_from(got.scales, static_cast<std::size_t>(got.places.at(row, b)) * scale, scale);
    }
  return all;
}

/// Of each rank, after a dispatch of these inputs.
std::vector<std::vector<std::uint8_t>> rows_of_all(const exchange_case& c,
                                                   const std::vector<rank_inputs>& inputs) {
  auto ranks = make_ranks(world::local(c.ranks, device_kind::cpu), c.config);
  for (std::size_t r = 0; r < ranks.size(); ++r) ranks[r].load(inputs[r]);
  for (auto& rank : ranks) rank.dispatch_async();
  for (auto& rank : ranks) rank.dispatch_wait();
  std::vector<std::vector<std::uint8_t>> of_rank;
  for (auto& rank : ranks) of_rank.push_back(bytes_of_rows(rank.read_received(), facts_of(c.config.format)));
  return of_rank;
}

/// Any bits, NaN and infinity among them, and blocks of zeros and of numbers of one size.
void draw_any_values(std::vector<bfloat16>& tokens, std::mt19937_64& random) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::size_t kind = i / 32 % 4;
    auto bits = static_cast<std::uint16_t>(random());
    if (kind == 0) bits = 0;
    if (kind == 1) bits = static_cast<std::uint16_t>((bits & 0x80ff) | 0x3f00);
    if (kind == 2 && (bits & 0x7f80) == 0x7f80) bits ^= 0x4000;  // finite, of any size
    tokens[i] = bfloat16::from_bits(bits);
  }
}

TEST_P(exchange_formats, rows_have_the_bits_of_layout_per_expert_whatever_values_tokens_have) {
  std::mt19937_64 random{5};
  const int multiple = facts_of(format()).multiple;
  // One block; scales that are no whole words; more than one line's data; pieces and units that end within a block of lanes.
  for (const int blocks : {1, 3, 7, 8, 33, 56}) {
    const exchange_case c =
        travelling({3, sizes(11, 3, 8, 40), {40, 3, 0}, routing::distinct}, multiple * blocks);
    for (const bool given : {false, true}) {
      exchange_case drawn = c;
      drawn.given_tokens = given;
      auto inputs = draw_inputs(drawn, random());
      for (rank_inputs& in : inputs) draw_any_values(in.tokens, random);
      exchange_case alike = c;
      alike.config.layout = ep_layout::per_expert;
      alike.config.transfer = ep_transfer::automatic;
      alike.config.rows = ep_rows::by_expert;
      EXPECT_EQ(rows_of_all(c, inputs), rows_of_all(alike, inputs))
          << "hidden " << c.config.hidden << (given ? ", given" : "");
    }
  }
}

TEST_P(exchange_formats, a_large_models_tokens_are_many_units_and_pieces) {
  const int multiple = facts_of(format()).multiple;
  const auto worlds = world::local(2, device_kind::cpu);
  for (const int hidden : {7168, 8192 + multiple, 20480 - multiple}) {
    const exchange_case c = travelling({2, sizes(9, 4, 8, 3), {3, 2}, routing::distinct}, hidden);
    auto ranks = make_ranks(worlds, c.config);
    for (const calls how : {calls::fused, calls::apart})
      EXPECT_EQ(run_round(c, ranks, 1, how), "") << "hidden " << hidden;
  }
}

class exchange_scales : public testing::TestWithParam<travel> {};

INSTANTIATE_TEST_SUITE_P(cpu, exchange_scales, testing::ValuesIn(every_travel),
                         [](const auto& how) { return name(how.param); });

TEST_P(exchange_scales, in_tiles_lie_as_products_want_them_and_experts_begin_with_a_tile) {
  const auto worlds = world::local(2, device_kind::cpu);
  const bool by_token = GetParam() == travel::in_lines_by_token || GetParam() == travel::in_chunks_by_token ||
                        GetParam() == travel::by_flags_by_token;
  for (const token_format format : {token_format::mxfp8, token_format::mxfp4, token_format::nvfp4}) {
    for (const int hidden : {32, 224, 1024, 3104}) {
      exchange_case c =
          travelling_with(GetParam(), format, hidden, {2, sizes(5, 2, 8, 150), {150, 40}, routing::sparse});
      c.config.tiled_scales = true;
      if (by_token) {
        EXPECT_TRUE(says(why_not(c.config, 2), "tiled_scales: with rows by_token", "use rows by_expert"));
        continue;
      }
      if (!carries(c.config.transfer, format)) continue;
      auto ranks = make_ranks(worlds, c.config);
      EXPECT_EQ(run_round(c, ranks, 1), "") << name(format) << ", hidden " << hidden;
    }
  }
}

TEST_P(exchange_scales, of_nvfp4_are_relative_to_the_callers_tensor_scale) {
  const exchange_case c =
      travelling_with(GetParam(), token_format::nvfp4, 64, {1, sizes(4, 1, 8, 3), {3}, routing::distinct});
  if (!carries(c.config.transfer, c.config.format)) GTEST_SKIP() << why_not(c.config, 1);
  auto ranks = make_ranks(world::local(1, device_kind::cpu), c.config);
  const rank_inputs in = draw_inputs(c, 2)[0];
  const float tensor_scale = 0.004f;
  exchange_rank& rank = ranks[0];
  const device_buffer<float> scale{rank.ranks(), std::vector<float>{tensor_scale}};
  for (const float* given : {scale.data(), static_cast<const float*>(nullptr), scale.data()}) {
    rank.load(in);
    rank.dispatch(given);
    const received_copy got = rank.read_received();
    EXPECT_EQ(rank.received().tensor_scale, given);
    for (std::size_t row = 0; row < 3; ++row) {
      const auto* token = in.tokens.data() + static_cast<std::size_t>(got.sources[row].token) * 64;
      for (std::size_t block = 0; block < 4; ++block) {
        std::vector<float> x;
        for (std::size_t i = 0; i < 16; ++i) x.push_back(static_cast<float>(token[block * 16 + i]));
        const expected_block right = expected(token_format::nvfp4, x, given == nullptr ? 1.0f : tensor_scale);
        EXPECT_EQ(read_scale(token_format::nvfp4, got.scales, row * 4 + block), right.scale);
        for (std::size_t i = 0; i < 16; ++i)
          EXPECT_EQ(read_value(token_format::nvfp4, got.tokens, row * 64 + block * 16 + i), right.values[i]);
      }
    }
    rank.apply_experts(got);
    rank.combine();
  }
  rank.ranks().synchronize();
}

}  // namespace
}  // namespace baton::test
