// The attention kernel, role by role, on the CPU machine: what it makes, whatever the schedule.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/support/attention_runs.hpp"

namespace baton {
namespace {

using test::attention_shape;

/// In every schedule, of heads of `head_dim`.
template <attention_kernels::config C>
void expect_in_all_schedules(const attention_shape& s, int head_dim = C.head_dim) {
  test::known_attention<attention_kernels::value<C>> c{s, head_dim, 5};
  for (const sim::options& how : test::product_schedules) {
    const auto found = test::errors_of(c.oracle, test::run_attention<C>(c.of, how));
    EXPECT_EQ(found.first_wrong, "");
    // Half a unit of each weight's last place, and of the result's: errors of weights are as random as values are.
    EXPECT_LE(found.rms(), C.fp16 ? 0x1p-10 : 0x1p-8) << text(c.of.shape);
  }
}
/// All head dimensions.
template <attention_kernels::config With512 = test::attention_of_512,
          attention_kernels::config With256 = test::attention_of_256,
          attention_kernels::config With128 = test::attention_of_128>
void expect_attention(const attention_shape& s) {
  expect_in_all_schedules<With128>(s, 64);
  expect_in_all_schedules<With128>(s);
  expect_in_all_schedules<With256>(s);
  expect_in_all_schedules<With512>(s);
}
/// `c` with a soft cap.
constexpr attention_kernels::config with_softcap(attention_kernels::config c) {
  c.softcap = true;
  return c;
}
constexpr attention_kernels::config of_fp16(attention_kernels::config c) {
  c.fp16 = true;
  return c;
}

TEST(attention_kernel, makes_one_tile) {
  expect_attention({.q_lens = {128}, .k_lens = {128}});
}
TEST(attention_kernel, makes_several_tiles_in_turn) {
  expect_attention({.q_lens = {128}, .k_lens = {640}});
}
TEST(attention_kernel, makes_sequences_of_any_lengths_beside_each_other_and_reads_none_of_the_others) {
  expect_attention({.q_lens = {3, 0, 130, 64}, .k_lens = {200, 77, 129, 0}, .tail = 5});
}
TEST(attention_kernel, rows_see_no_key_behind_their_own_from_the_last_row_and_key_on) {
  expect_attention({.q_lens = {200}, .k_lens = {200}, .options = {.causal = true}});
  expect_attention({.q_lens = {70, 140}, .k_lens = {333, 90}, .options = {.causal = true}});
}
TEST(attention_kernel, rows_see_a_window_of_keys) {
  expect_attention({.q_lens = {150}, .k_lens = {700}, .options = {.causal = true, .window_left = 100}});
  expect_attention({.q_lens = {150}, .k_lens = {500}, .options = {.window_left = 40, .window_right = 30}});
  // Tiles that the first row of an item sees all of, and the last not.
  expect_attention({.q_lens = {130}, .k_lens = {700}, .options = {.causal = true, .window_left = 300}});
}
TEST(attention_kernel, columns_that_narrow_heads_do_not_have_are_zeros_whatever_the_next_head_has_there) {
  auto c = test::make_attention<bfloat16>(
      {.q_lens = {70}, .k_lens = {140}, .heads = 2, .kv_heads = 2, .head_dim = 64}, 5);
  for (std::size_t row = 0; row < 140; ++row)
    for (std::size_t i = 64; i < 128; ++i)
      c.k[row * 128 + i] = c.v[row * 128 + i] = bfloat16{std::numeric_limits<float>::quiet_NaN()};
  const auto made = test::run_attention<test::attention_of_128>(c, {});
  for (std::size_t row = 0; row < 70; ++row)
    for (std::size_t i = 0; i < 64; ++i)
      EXPECT_TRUE(std::isfinite(static_cast<float>(made.out[row * 128 + i])));
}
TEST(attention_kernel, heads_share_keys_in_groups) {
  expect_attention({.q_lens = {20}, .k_lens = {140}, .heads = 4, .kv_heads = 2, .options = {.causal = true}});
}
TEST(attention_kernel, sinks_take_their_share_and_scores_are_capped) {
  expect_attention({.q_lens = {40}, .k_lens = {140}, .heads = 2, .kv_heads = 1, .sinks = true});
  expect_attention(
      {.q_lens = {20}, .k_lens = {3}, .heads = 4, .kv_heads = 1, .sinks = true});  // a large share
  expect_attention<with_softcap(test::attention_of_512), with_softcap(test::attention_of_256),
                   with_softcap(test::attention_of_128)>(
      {.q_lens = {40}, .k_lens = {140}, .options = {.causal = true, .softcap = 3}, .spread = 4});
}
TEST(attention_kernel, takes_fp16) {
  expect_attention<of_fp16(test::attention_of_512), of_fp16(test::attention_of_256),
                   of_fp16(test::attention_of_128)>(
      {.q_lens = {140}, .k_lens = {300}, .options = {.causal = true}});
}
TEST(attention_kernel, sums_are_scaled_again_where_scores_grow) {
  expect_attention({.q_lens = {64}, .k_lens = {900}, .spread = 24});
}

}  // namespace
}  // namespace baton
