// Attention of few rows over caches of e4m3, role by role, on the CPU machine: what it makes, whatever the schedule.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "tests/support/decode_attention_runs.hpp"

namespace baton {
namespace {

using test::attention_shape;
using test::decode_run;

/// In every schedule.
template <decode_attention::config C>
void expect_right(const attention_shape& s, const decode_run& run) {
  using value = decode_attention::value<C>;
  auto of = s;
  of.head_dim = C.head_dim;
  auto c = test::make_attention<value>(of, 5);
  test::round_to_e4m3(c, run.factors);
  test::attention_oracle<value> oracle{c, test::tensor_core_rounding<float16>(C.head_dim)};
  for (const sim::options& how : test::product_schedules) {
    std::vector<std::byte> scratch;
    const auto found = test::errors_of(oracle, test::run_decode<C>(c, run, how, scratch));
    EXPECT_EQ(found.first_wrong, "") << test::text(of);
    EXPECT_LE(found.rms(), C.fp16 ? 0x1p-10 : 0x1p-8) << test::text(of);
    EXPECT_TRUE(std::all_of(scratch.begin(), scratch.begin() + 4096, [](std::byte b) {
      return b == std::byte{};
    })) << "what is signed is not as it was";
  }
}
void expect_right_of_256(const attention_shape& s, const decode_run& run = {}) {
  expect_right<test::of_e4m3(test::decode_of_256)>(s, run);
}
void expect_right_of_512(const attention_shape& s, const decode_run& run = {}) {
  expect_right<test::of_e4m3(test::decode_of_512)>(s, run);
}
void expect_right(const attention_shape& s, const decode_run& run = {}) {
  expect_right_of_256(s, run);
  expect_right_of_512(s, run);
}

TEST(decode_attention_e4m3, one_block_makes_one_tile_and_several_in_turn) {
  expect_right({.q_lens = {1}, .k_lens = {128}}, {.team = 1, .teams = 1});
  expect_right({.q_lens = {1}, .k_lens = {500}, .heads = 8}, {.team = 1, .teams = 1, .short_units = 8});
}
TEST(decode_attention_e4m3, more_rows_than_eight_are_right_beside_each_other) {
  expect_right({.q_lens = {2}, .k_lens = {300}, .heads = 8}, {.team = 1, .teams = 1, .short_units = 8});
}
TEST(decode_attention_e4m3, keys_and_values_are_scaled_for_all_heads_or_head_by_head) {
  const attention_shape s{.q_lens = {1, 2}, .k_lens = {60, 40}, .heads = 3, .kv_heads = 3};
  expect_right_of_256(s, {.factors = {{0.25f}, {4.0f}}});
  expect_right_of_256(s, {.factors = test::factors_by_head(3)});
  expect_right_of_256(s, {.factors = {{}, {}}});
  expect_right_of_512(s, {.factors = test::factors_by_head(3)});
}

TEST(decode_attention_e4m3, teams_share_an_item_and_the_last_puts_it_together) {
  expect_right({.q_lens = {1}, .k_lens = {700}}, {.team = 2, .teams = 3});
  expect_right_of_512({.q_lens = {2, 1}, .k_lens = {400, 300}, .heads = 16, .kv_heads = 2},
                      {.team = 1, .teams = 5});
  expect_right_of_512({.q_lens = {2}, .k_lens = {200}, .heads = 8}, {.team = 8, .teams = 1});
}
TEST(decode_attention_e4m3, lengths_around_borders_of_pieces_and_tiles_are_right) {
  expect_right({.q_lens = {1, 1, 1, 1, 1, 1, 1}, .k_lens = {1, 15, 16, 17, 64, 65, 129}});
}
/// A block's few keys are multiplied with 64 rows of a slot: the end of the item before among them, whose keys nobody may see.
TEST(decode_attention_e4m3, what_slots_held_before_reaches_no_output) {
  expect_right_of_512({.q_lens = {1, 1}, .k_lens = {380, 640}}, {.team = 8, .teams = 2});
}
TEST(decode_attention_e4m3, sequences_without_rows_or_keys_are_right) {
  expect_right({.q_lens = {1, 0, 2, 1}, .k_lens = {0, 40, 0, 33}, .tail = 2});
}
TEST(decode_attention_e4m3, groups_of_heads_and_more_rows_than_one_item_has_are_right) {
  for (const int group : {1, 3, 8, 16})
    expect_right_of_256({.q_lens = {1, 3}, .k_lens = {100, 20}, .heads = group});
  expect_right_of_512({.q_lens = {5}, .k_lens = {50}, .heads = 8, .options = {.causal = true}});
}
TEST(decode_attention_e4m3, rows_see_their_windows_and_no_key_behind_their_own) {
  expect_right({.q_lens = {5, 8}, .k_lens = {70, 4}, .heads = 3, .options = {.causal = true}});
  expect_right({.q_lens = {4}, .k_lens = {300}, .options = {.causal = true, .window_left = 100}});
  expect_right_of_256({.q_lens = {4}, .k_lens = {300}, .options = {.causal = true, .window_left = 100}},
                      {.team = 1, .teams = 1});
  expect_right({.q_lens = {4}, .k_lens = {200}, .options = {.window_left = 70, .window_right = 1}});
}
/// Items of a sequence are as many as its rows take, not the longest one's.
TEST(decode_attention_e4m3, sequences_of_many_rows_and_of_few_share_out_their_blocks) {
  expect_right_of_256({.q_lens = {1, 9, 1, 4}, .k_lens = {300, 30, 200, 270}, .heads = 8},
                      {.team = 1, .teams = 5});
}
TEST(decode_attention_e4m3, pages_of_every_size_and_layout_are_read) {
  for (const int page_size : {16, 48, 64})
    for (const kv_layout layout : {kv_layout::nhd, kv_layout::hnd})
      expect_right_of_512(
          {.q_lens = {1, 1}, .k_lens = {130, 33}, .heads = 2, .kv_heads = 2},
          {.page_size = page_size, .layout = layout, .page_gap = 1, .factors = test::factors_by_head(2)});
}
TEST(decode_attention_e4m3, sequences_with_as_many_rows_each_have_their_lse_by_sequence) {
  expect_right_of_256({.q_lens = {2, 2}, .k_lens = {190, 40}, .heads = 10}, {.equal_rows = true});
}
TEST(decode_attention_e4m3, takes_fp16) {
  static constexpr auto of_fp16 = [](int head_dim) {
    return decode_attention::make_config(head_dim, 16, true, true);
  };
  const attention_shape s{
      .q_lens = {2, 1}, .k_lens = {300, 70}, .heads = 12, .kv_heads = 2, .options = {.causal = true}};
  expect_right<of_fp16(256)>(s, {.factors = test::factors_by_head(2)});
  expect_right<of_fp16(512)>(s, {.factors = test::factors_by_head(2)});
}
TEST(decode_attention_e4m3, scores_are_capped_and_sinks_take_their_share) {
  expect_right(
      {.q_lens = {3}, .k_lens = {300}, .heads = 4, .options = {.causal = true, .softcap = 3}, .spread = 4});
  expect_right({.q_lens = {2, 1, 1}, .k_lens = {140, 3, 0}, .heads = 8, .kv_heads = 2, .sinks = true});
}
TEST(decode_attention_e4m3, sums_are_scaled_again_where_scores_grow) {
  expect_right({.q_lens = {4}, .k_lens = {700}, .heads = 4, .spread = 24}, {.teams = 3});
}

/// Rows of q by powers of two apart, beyond what fp16 has, and keys as much smaller: each row is scaled by its own.
TEST(decode_attention_e4m3, rows_of_q_of_all_magnitudes_are_right) {
  constexpr decode_attention::config of = test::of_e4m3(test::decode_of_256);
  auto c = test::make_attention<bfloat16>(
      {.q_lens = {8}, .k_lens = {90}, .heads = 2, .head_dim = 256, .options = {.scale = 1.0f}}, 5);
  for (std::size_t i = 0; i < c.q.size(); ++i)
    c.q[i] = bfloat16{std::ldexp(static_cast<float>(c.q[i]), static_cast<int>(i / 256) + 6)};
  for (bfloat16& k : c.k) k = bfloat16{std::ldexp(static_cast<float>(k), -20)};
  const test::cache_factors factors{{0x1p-20f}, {1.0f}};
  test::round_to_e4m3(c, factors);
  test::attention_oracle<bfloat16> oracle{c, test::tensor_core_rounding<float16>(256)};
  std::vector<std::byte> scratch;
  EXPECT_EQ(test::errors_of(oracle, test::run_decode<of>(c, {.factors = factors}, {}, scratch)).first_wrong,
            "");
}
TEST(decode_attention_e4m3, a_rows_largest_magnitude_is_found_wherever_it_stands) {
  constexpr decode_attention::config of = test::of_e4m3(test::decode_of_256);
  for (const int column : {0, 1, 7, 130, 255}) {
    auto c = test::make_attention<bfloat16>(
        {.q_lens = {1}, .k_lens = {40}, .head_dim = 256, .options = {.scale = 0x1p-14f}}, 5);
    c.q[static_cast<std::size_t>(column)] = bfloat16{-60000.0f};
    test::round_to_e4m3(c, {});
    test::attention_oracle<bfloat16> oracle{c, test::tensor_core_rounding<float16>(256)};
    std::vector<std::byte> scratch;
    EXPECT_EQ(test::errors_of(oracle, test::run_decode<of>(c, {}, {}, scratch)).first_wrong, "") << column;
  }
}
/// All but the first key weigh 2^-26 of it, and only they have values: fp16's smallest is 2^-24.
TEST(decode_attention_e4m3, keys_that_weigh_next_to_nothing_are_there) {
  constexpr decode_attention::config of = test::of_e4m3(test::decode_of_256);
  auto c = test::make_attention<bfloat16>(
      {.q_lens = {1}, .k_lens = {300}, .head_dim = 256, .options = {.scale = 1.0f}}, 5);
  std::fill(c.q.begin(), c.q.end(), bfloat16{0.0f});
  std::fill(c.k.begin(), c.k.end(), bfloat16{0.0f});
  std::fill(c.v.begin(), c.v.end(), bfloat16{1.0f});
  c.q[0] = bfloat16{18.0f}, c.k[0] = bfloat16{1.0f};
  std::fill_n(c.v.begin(), 256, bfloat16{0.0f});
  std::vector<std::byte> scratch;
  const float right = 299 * std::exp(-18.0f);
  for (const bfloat16 v : test::run_decode<of>(c, {.team = 1, .teams = 1}, {}, scratch).out)
    EXPECT_NEAR(static_cast<float>(v), right, right / 16);
}
TEST(decode_attention_e4m3, a_rows_factor_brings_its_largest_magnitude_to_between_128_and_256) {
  for (const float largest : {1.0f, 1.5f, 1.99f, 2.0f, 0x1p-99f, 0x1p127f, 255.9f, 3.0e-20f}) {
    const decode_attention::row_factor f = decode_attention::factor_of(largest);
    EXPECT_GE(largest * f.by, 128) << largest;
    EXPECT_LT(largest * f.by, 256) << largest;
    EXPECT_EQ(f.by * f.inverse, 1) << largest;
  }
  for (const float least : {0.0f, 0x1p-149f, 0x1p-126f, 0x1p-101f}) {
    const decode_attention::row_factor f = decode_attention::factor_of(least);
    EXPECT_EQ(f.by, 0x1p107f) << least;
    EXPECT_EQ(f.by * f.inverse, 1) << least;
  }
  EXPECT_GT(decode_attention::factor_of(std::numeric_limits<float>::infinity()).by, 0);
}

}  // namespace
}  // namespace baton
