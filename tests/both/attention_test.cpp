// Attention as users call it on the CPU: against double precision, and against itself.
#include "baton/attention.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "tests/support/e4m3_cache.hpp"

namespace baton {
namespace {

using test::attention_case;
using test::attention_gaps;
using test::attention_result;
using test::attention_shape;
using test::cpu_rounding;
using test::make_attention;

world cpu_world() {
  return world::local(1, device_kind::cpu)[0];
}

template <class Value>
void expect_right(const attention_case<Value>& c) {
  const attention_result<Value> found = test::varlen_result(cpu_world(), c);
  EXPECT_EQ(test::errors_of(c, found, cpu_rounding(c.shape.head_dim)).first_wrong, "");
}
/// Of both types.
void expect_right(const attention_shape& s, std::uint32_t seed = 1) {
  expect_right(make_attention<bfloat16>(s, seed));
  expect_right(make_attention<float16>(s, seed));
}

template <class Value>
void expect_same_bits(const attention_result<Value>& a, const attention_result<Value>& b) {
  EXPECT_TRUE(a.out == b.out);
  ASSERT_EQ(a.lse.size(), b.lse.size());
  EXPECT_EQ(std::memcmp(a.lse.data(), b.lse.data(), a.lse.size() * sizeof(float)), 0);
}

TEST(attention, a_row_of_one_key_is_that_keys_value) {
  const auto c = make_attention<bfloat16>({.q_lens = {3}, .k_lens = {1}, .head_dim = 8}, 1);
  const auto found = test::varlen_result(cpu_world(), c);
  for (std::size_t i = 0; i < found.out.size(); ++i) EXPECT_EQ(found.out[i], c.v[i % 8]);
}

TEST(attention, keys_that_are_alike_are_averaged) {
  auto c = make_attention<bfloat16>({.q_lens = {2}, .k_lens = {64}, .head_dim = 16}, 1);
  for (std::size_t i = 0; i < c.k.size(); ++i) {
    c.k[i] = bfloat16{0.5f};
    c.v[i] = bfloat16{static_cast<float>(i / 16)};
  }
  const auto found = test::varlen_result(cpu_world(), c);
  for (const bfloat16 v : found.out) EXPECT_EQ(static_cast<float>(v), 31.5f);
}

TEST(attention, lengths_around_the_borders_of_blocks_are_right) {
  for (const int keys : {1, 2, 31, 32, 33, 63, 64, 65, 97})
    for (const int rows : {1, 15, 16, 17}) expect_right({.q_lens = {rows}, .k_lens = {keys}, .head_dim = 24});
}

TEST(attention, every_size_of_group_is_right) {
  for (int group = 1; group <= 16; ++group)
    expect_right({.q_lens = {5, 1},
                  .k_lens = {40, 7},
                  .heads = 2 * group,
                  .kv_heads = 2,
                  .head_dim = 16,
                  .options = {.causal = true}},
                 static_cast<std::uint32_t>(group));
}

TEST(attention, heads_of_every_width_are_right) {
  for (const int dim : {8, 16, 24, 64, 80, 96, 128, 192, 256, 512})
    expect_right({.q_lens = {4}, .k_lens = {37}, .heads = 2, .head_dim = dim, .options = {.causal = true}});
}

/// Against double precision of the same values.
template <class Value>
void expect_e4m3_is_right(attention_shape s, const test::cache_factors& factors, kv_layout layout) {
  auto c = make_attention<Value>(s, 7);
  test::round_to_e4m3(c, factors);
  auto keys = test::pages_of(c, 16, layout, 3);
  test::spoil_unused(keys);
  const auto found = test::e4m3_result(cpu_world(), c, keys, factors);
  EXPECT_EQ(test::errors_of(c, found, cpu_rounding(s.head_dim)).first_wrong, "");
}
TEST(attention, caches_of_e4m3_are_scaled_for_all_heads_or_head_by_head) {
  for (const kv_layout layout : {kv_layout::nhd, kv_layout::hnd})
    for (const int dim : {16, 128, 512})
      for (const bool by_head : {false, true}) {
        const test::cache_factors factors =
            by_head ? test::factors_by_head(2) : test::cache_factors{{0.5f}, {4.0f}};
        const attention_shape s{.q_lens = {3, 1, 20},
                                .k_lens = {40, 0, 33},
                                .heads = 4,
                                .kv_heads = 2,
                                .head_dim = dim,
                                .options = {.causal = true}};
        expect_e4m3_is_right<bfloat16>(s, factors, layout);
        expect_e4m3_is_right<float16>(s, factors, layout);
      }
}
TEST(attention, a_cache_of_e4m3_without_factors_counts_as_it_is) {
  auto c = make_attention<bfloat16>({.q_lens = {2}, .k_lens = {30}, .head_dim = 32}, 7);
  test::round_to_e4m3(c, {});
  const auto keys = test::pages_of(c, 16, kv_layout::nhd, 3);
  const auto with_ones = test::e4m3_result(cpu_world(), c, keys, {});
  expect_same_bits(test::paged_result(cpu_world(), c, test::as_e4m3(keys, c.shape, {}), {}, [](auto&) {}),
                   with_ones);
  expect_same_bits(test::paged_result(cpu_world(), c, keys), with_ones);
}

TEST(attention, windows_are_level_with_the_last_row) {
  for (const bool causal : {false, true})
    for (const int left : {-1, 0, 1, 31, 32, 100})
      for (const int right : {-1, 0, 5})
        expect_right({.q_lens = {20, 50, 3},
                      .k_lens = {50, 20, 3},
                      .head_dim = 8,
                      .options = {.causal = causal, .window_left = left, .window_right = right}});
}

TEST(attention, rows_without_a_key_are_zeros_also_with_sinks) {
  for (const bool sinks : {false, true})
    expect_right({.q_lens = {9, 4, 0, 2},
                  .k_lens = {5, 0, 6, 1},
                  .heads = 2,
                  .head_dim = 16,
                  .options = {.causal = true},
                  .sinks = sinks,
                  .tail = 2});
}

TEST(attention, scales_caps_and_sinks_are_right_alone_and_together) {
  for (const float scale : {1.0f, -0.25f, 0.0f, 0.01f})
    for (const float cap : {0.0f, 5.0f, 50.0f})
      for (const bool sinks : {false, true})
        expect_right({.q_lens = {6},
                      .k_lens = {45},
                      .heads = 2,
                      .head_dim = 32,
                      .options = {.scale = scale, .softcap = cap},
                      .sinks = sinks});
}

TEST(attention, logits_far_apart_are_right) {
  for (const float spread : {8.0f, 40.0f})
    expect_right({.q_lens = {12}, .k_lens = {150}, .head_dim = 64, .spread = spread});
}

/// From 0 to `most`.
int drawn(std::mt19937& random, int most) {
  return static_cast<int>(random() % (static_cast<unsigned>(most) + 1));
}

attention_shape random_shape(std::mt19937& random) {
  attention_shape s;
  const int batch = 1 + drawn(random, 3);
  for (int b = 0; b < batch; ++b) {
    s.q_lens.push_back(drawn(random, 20));
    s.k_lens.push_back(drawn(random, 3) == 0 ? 0 : drawn(random, 100));
  }
  s.kv_heads = 1 + drawn(random, 1);
  s.heads = s.kv_heads * (1 + drawn(random, 5));
  s.head_dim = 8 * (1 + drawn(random, 5));
  s.options.causal = drawn(random, 1) == 0;
  s.options.window_left = drawn(random, 1) == 0 ? -1 : drawn(random, 70);
  s.options.window_right = drawn(random, 1) == 0 ? -1 : drawn(random, 70);
  if (drawn(random, 2) == 0) s.options.scale = 0.125f * static_cast<float>(drawn(random, 8));
  if (drawn(random, 2) == 0) s.options.softcap = static_cast<float>(1 + drawn(random, 30));
  s.sinks = drawn(random, 1) == 0;
  s.spread = static_cast<float>(1 + drawn(random, 3));
  s.tail = drawn(random, 2);
  return s;
}

template <class Value>
void expect_right_in_rows_and_in_pages(std::mt19937& random, std::uint32_t seed) {
  const auto c = make_attention<Value>(random_shape(random), seed);
  const attention_gaps gaps{drawn(random, 2), drawn(random, 2), drawn(random, 2), drawn(random, 2),
                            drawn(random, 2)};
  const auto found = test::varlen_result(cpu_world(), c, gaps);
  ASSERT_EQ(test::errors_of(c, found, cpu_rounding(c.shape.head_dim)).first_wrong, "");
  constexpr int page_sizes[] = {1, 3, 16, 32, 64, 128};
  const auto layout = drawn(random, 1) == 0 ? kv_layout::nhd : kv_layout::hnd;
  const auto keys = test::pages_of(c, page_sizes[drawn(random, 5)], layout, seed, gaps);
  SCOPED_TRACE(test::text(c.shape) + ", pages of " + std::to_string(keys.page_size));
  expect_same_bits(found, test::paged_result(cpu_world(), c, keys, gaps));
}

TEST(attention, random_shapes_are_right_in_rows_and_in_pages) {
  std::mt19937 random{7};
  for (std::uint32_t i = 0; i < 200 && !HasFailure(); ++i) {
    expect_right_in_rows_and_in_pages<bfloat16>(random, i);
    expect_right_in_rows_and_in_pages<float16>(random, i);
  }
}

TEST(attention, lengths_around_the_borders_of_pages_are_right_for_few_rows_and_many) {
  for (const int q_len : {1, 8})
    for (const int page_size : {16, 64})
      for (const kv_layout layout : {kv_layout::nhd, kv_layout::hnd}) {
        const auto c = make_attention<float16>({.q_lens = {q_len, q_len, q_len, q_len},
                                                .k_lens = {page_size - 1, page_size, page_size + 1, 0},
                                                .heads = 4,
                                                .kv_heads = 2,
                                                .head_dim = 16,
                                                .options = {.causal = true}},
                                               1);
        const auto found = test::paged_result(cpu_world(), c, test::pages_of(c, page_size, layout, 2));
        EXPECT_EQ(test::errors_of(c, found, cpu_rounding(16)).first_wrong, "") << page_size << name(layout);
      }
}

TEST(attention, equal_sequences_need_no_lengths) {
  const auto c = make_attention<bfloat16>(
      {.q_lens = {5, 5, 5}, .k_lens = {33, 33, 33}, .heads = 2, .head_dim = 16, .options = {.causal = true}},
      1);
  const auto told = test::varlen_result(cpu_world(), c);
  expect_same_bits(told, test::varlen_result(cpu_world(), c, {}, [](auto& p) {
                     p.cu_seqlens_q = nullptr;
                     p.cu_seqlens_k = nullptr;
                   }));
}

TEST(attention, what_a_sequence_gives_does_not_depend_on_the_others) {
  const attention_shape s{
      .q_lens = {7, 18, 9}, .k_lens = {60, 45, 33}, .heads = 4, .kv_heads = 2, .head_dim = 16};
  auto c = make_attention<bfloat16>(s, 3);
  const auto before = test::varlen_result(cpu_world(), c);
  for (int row = c.cu_k[1]; row < c.cu_k[2]; ++row)
    test::overwrite_key(c, row, std::numeric_limits<float>::quiet_NaN());
  const auto after = test::varlen_result(cpu_world(), c);
  for (int row = 0; row < c.total_q(); ++row) {
    const auto from = static_cast<std::ptrdiff_t>(c.q_at(row, 0)),
               to = static_cast<std::ptrdiff_t>(c.q_at(row + 1, 0));
    if (c.sequence_of(row) == 1)
      EXPECT_TRUE(std::isnan(static_cast<float>(after.out[c.q_at(row, 0)])));
    else
      EXPECT_TRUE(std::equal(after.out.begin() + from, after.out.begin() + to, before.out.begin() + from))
          << row;
  }
}

TEST(attention, a_key_that_a_row_sees_reaches_it_whatever_it_is) {
  auto c =
      make_attention<bfloat16>({.q_lens = {3}, .k_lens = {3}, .head_dim = 8, .options = {.causal = true}}, 1);
  test::overwrite_key(c, 1, std::numeric_limits<float>::quiet_NaN());
  const auto found = test::varlen_result(cpu_world(), c);
  EXPECT_FALSE(std::isnan(static_cast<float>(found.out[0])));
  EXPECT_TRUE(std::isnan(static_cast<float>(found.out[8])) && std::isnan(static_cast<float>(found.out[16])));
  EXPECT_TRUE(std::isnan(found.lse[1]) && std::isnan(found.lse[2]));
}

TEST(attention, heads_that_share_a_head_of_k_give_what_they_give_with_copies_of_it) {
  const auto shared = make_attention<bfloat16>({.q_lens = {19},
                                                .k_lens = {70},
                                                .heads = 6,
                                                .kv_heads = 2,
                                                .head_dim = 16,
                                                .options = {.causal = true, .window_left = 45}},
                                               5);
  attention_case<bfloat16> copied = shared;
  copied.shape.kv_heads = 6;
  copied.k.clear();
  copied.v.clear();
  for (int row = 0; row < 70; ++row)
    for (int head = 0; head < 6; ++head) {
      const auto at = static_cast<std::ptrdiff_t>(shared.k_at(row, head / 3));
      copied.k.insert(copied.k.end(), shared.k.begin() + at, shared.k.begin() + at + 16);
      copied.v.insert(copied.v.end(), shared.v.begin() + at, shared.v.begin() + at + 16);
    }
  expect_same_bits(test::varlen_result(cpu_world(), shared), test::varlen_result(cpu_world(), copied));
}

TEST(attention, a_sink_far_from_all_logits_takes_all_or_nothing) {
  auto c =
      make_attention<bfloat16>({.q_lens = {3}, .k_lens = {40}, .heads = 3, .head_dim = 16, .sinks = true}, 1);
  c.sinks = {300, -300, -std::numeric_limits<float>::infinity()};
  const auto found = test::varlen_result(cpu_world(), c);
  EXPECT_EQ(test::errors_of(c, found, cpu_rounding(16)).first_wrong, "");
  EXPECT_EQ(static_cast<float>(found.out[0]), 0.0f);
  EXPECT_EQ(found.lse[0], 300.0f);
}

TEST(attention, logits_of_minus_infinity_weigh_nothing) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  auto c =
      make_attention<bfloat16>({.q_lens = {1}, .k_lens = {2}, .head_dim = 8, .options = {.scale = 1.0f}}, 1);
  std::fill(c.q.begin(), c.q.end(), bfloat16{1.0f});
  test::overwrite_key(c, 0, -infinity);
  std::fill(c.v.begin(), c.v.end(), bfloat16{2.0f});
  const auto one = test::varlen_result(cpu_world(), c);
  EXPECT_EQ(static_cast<float>(one.out[0]), 2.0f);
  test::overwrite_key(c, 1, -infinity);
  std::fill(c.v.begin(), c.v.end(), bfloat16{2.0f});
  const auto none = test::varlen_result(cpu_world(), c);
  EXPECT_EQ(static_cast<float>(none.out[0]), 0.0f);
  EXPECT_EQ(none.lse[0], -infinity);
}

TEST(attention, what_the_device_says_of_lengths_and_pages_leaves_no_tensor) {
  auto c = make_attention<bfloat16>({.q_lens = {4, 4}, .k_lens = {20, 20}, .head_dim = 8}, 1);
  c.cu_q = {-5, 1000, 3};
  c.cu_k = {7, -1, 4000};
  c.shape.tail = 8 - 3;  // memory of 8 rows, as it was made
  EXPECT_NO_THROW(test::varlen_result(cpu_world(), c, {}, [](auto& p) {
    p.total_q = 8;
    p.total_k = 40;
    p.max_seqlen_q = 4;
    p.max_seqlen_k = 20;
  }));
  c = make_attention<bfloat16>({.q_lens = {4, 4}, .k_lens = {20, 20}, .head_dim = 8}, 1);
  auto keys = test::pages_of(c, 16, kv_layout::nhd, 1);
  keys.page_table = {-1, 1 << 30, -7, 5, 1000, 2};
  keys.seqlens = {1 << 30, -3};
  EXPECT_NO_THROW(test::paged_result(cpu_world(), c, keys));
}

/// Undefined arithmetic that the answer does not show: UBSan does.
TEST(attention, the_longest_that_many_sequences_may_be_is_in_all_more_than_31_bits) {
  const world where = cpu_world();
  const auto c = make_attention<bfloat16>({.q_lens = {1}, .k_lens = {1}, .head_dim = 8}, 1);
  const std::vector<std::int32_t> ends{0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, lengths{0, 0, 0, 0, 0, 0, 0, 0, 1};
  std::vector<bfloat16> out(8);
  varlen_attention_problem<bfloat16> p{.q = c.q.data(),
                                       .k = c.k.data(),
                                       .v = c.v.data(),
                                       .out = out.data(),
                                       .batch = 9,
                                       .heads = 1,
                                       .kv_heads = 1};
  p.cu_seqlens_q = p.cu_seqlens_k = ends.data();
  p.max_seqlen_q = p.max_seqlen_k = 1 << 28, p.total_q = p.total_k = 1, p.head_dim = 8;
  varlen_attention(where, p, nullptr);
  where.synchronize();
  EXPECT_EQ(test::errors_of(c, out.data(), nullptr, cpu_rounding(8)).first_wrong, "");
  const std::vector<std::int32_t> pages(9, 0);
  paged_attention_problem<bfloat16> in_pages{.q = c.q.data(), .k_cache = c.k.data(), .v_cache = c.v.data()};
  in_pages.out = out.data(), in_pages.page_table = pages.data(), in_pages.seqlens = lengths.data();
  in_pages.batch = 9, in_pages.q_len = 1 << 28, in_pages.heads = in_pages.kv_heads = 1, in_pages.head_dim = 8;
  in_pages.num_pages = in_pages.max_pages = 1, in_pages.page_size = 1 << 28;
  in_pages.cu_seqlens_q = ends.data(), in_pages.total_q = 1;
  out.assign(8, bfloat16{0.0f});
  paged_attention(where, in_pages, nullptr);
  where.synchronize();
  EXPECT_EQ(test::errors_of(c, out.data(), nullptr, cpu_rounding(8)).first_wrong, "");
}

TEST(attention, work_is_done_on_the_stream_that_it_was_given) {
  const world where = cpu_world();
  const auto c = make_attention<bfloat16>({.q_lens = {2}, .k_lens = {3}, .head_dim = 8}, 1);
  std::vector<bfloat16> out(c.q.size(), bfloat16::from_bits(0xffff));
  int queue = 0;
  const varlen_attention_problem<bfloat16> p{.q = c.q.data(),
                                             .k = c.k.data(),
                                             .v = c.v.data(),
                                             .out = out.data(),
                                             .batch = 1,
                                             .max_seqlen_q = 2,
                                             .max_seqlen_k = 3,
                                             .total_q = 2,
                                             .total_k = 3,
                                             .heads = 1,
                                             .kv_heads = 1,
                                             .head_dim = 8};
  varlen_attention(where, p, nullptr, {&queue});
  EXPECT_EQ(out[0].bits, 0xffff) << "nothing runs before it is waited for";
  where.synchronize({&queue});
  EXPECT_EQ(test::errors_of(c, out.data(), nullptr, cpu_rounding(8)).first_wrong, "");
}

}  // namespace
}  // namespace baton
