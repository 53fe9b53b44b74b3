// The attention kernel on keys in pages, on the CPU machine: what it makes, wherever they lie, and that nothing else reaches it.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/attention_runs.hpp"

namespace baton {
namespace {

using attention_kernels::make_config;
using test::attention_shape;

constexpr attention_kernels::config paged_512 = make_config(512, false, false, true),
                                    paged_256 = make_config(256, false, false, true),
                                    paged_128 = make_config(128, false, false, true);

/// A shape with all head dimensions, and what must come of it however its keys lie.
class paged_case {
 public:
  explicit paged_case(const attention_shape& s)
      : of_64_{s, 64, 5}, of_128_{s, 128, 5}, of_256_{s, 256, 5}, of_512_{s, 512, 5} {}

  void expect_right(int page_size, kv_layout layout, const sim::options& how = {}) {
    expect_right<paged_128>(of_64_, page_size, layout, how);
    expect_right<paged_128>(of_128_, page_size, layout, how);
    expect_right<paged_256>(of_256_, page_size, layout, how);
    expect_right<paged_512>(of_512_, page_size, layout, how);
  }

 private:
  using known = test::known_attention<bfloat16>;
  template <attention_kernels::config C>
  static void expect_right(known& c, int page_size, kv_layout layout, const sim::options& how) {
    auto keys = test::pages_of(c.of, page_size, layout, 3);
    test::spoil_unused(keys);
    EXPECT_EQ(test::errors_of(c.oracle, test::run_paged_attention<C>(c.of, keys, how)).first_wrong, "")
        << "pages of " << page_size << " " << name(layout);
  }

  known of_64_, of_128_, of_256_, of_512_;
};
void expect_pages(const attention_shape& s, int page_size, kv_layout layout) {
  paged_case{s}.expect_right(page_size, layout);
}
constexpr int page_sizes[] = {16, 32, 48, 64, 128};
constexpr kv_layout layouts[] = {kv_layout::nhd, kv_layout::hnd};

TEST(attention_kernel_paged, pages_of_every_size_and_layout_are_followed) {
  paged_case c{{.q_lens = {40}, .k_lens = {430}, .heads = 2, .kv_heads = 2}};
  for (const int page_size : page_sizes)
    for (const kv_layout layout : layouts) c.expect_right(page_size, layout);
}
TEST(attention_kernel_paged, pages_are_followed_in_every_schedule) {
  paged_case c{{.q_lens = {128}, .k_lens = {530}, .options = {.causal = true}}};
  for (const sim::options& how : test::product_schedules)
    for (const int page_size : {16, 64}) c.expect_right(page_size, kv_layout::nhd, how);
}
TEST(attention_kernel_paged, tables_are_read_far_ahead) {
  paged_case c{{.q_lens = {16}, .k_lens = {2300}}};
  for (const int page_size : {16, 32}) c.expect_right(page_size, kv_layout::hnd);
}
TEST(attention_kernel_paged, lengths_at_the_borders_of_pages_and_tiles_and_sequences_of_none_are_right) {
  for (const int page_size : page_sizes)
    expect_pages({.q_lens = {5, 5, 5, 5, 5},
                  .k_lens = {page_size - 1, page_size, page_size + 1, 0, 129},
                  .heads = 2,
                  .kv_heads = 1,
                  .options = {.causal = true}},
                 page_size, kv_layout::nhd);
  paged_case uneven{{.q_lens = {3, 0, 130, 64}, .k_lens = {200, 77, 129, 0}, .tail = 5}};
  uneven.expect_right(16, kv_layout::hnd);
  uneven.expect_right(64, kv_layout::nhd);
}
TEST(attention_kernel_paged, a_window_may_begin_in_the_second_half_of_what_is_copied_at_once) {
  paged_case c{{.q_lens = {140}, .k_lens = {720}, .options = {.causal = true, .window_left = 100}}};
  for (const int page_size : {32, 64}) c.expect_right(page_size, kv_layout::hnd);
}
TEST(attention_kernel_paged, rows_see_a_window_of_keys_and_no_page_in_front_of_it) {
  paged_case c{{.q_lens = {140}, .k_lens = {700}, .options = {.causal = true, .window_left = 100}}},
      to_both_sides{{.q_lens = {20}, .k_lens = {500}, .options = {.window_left = 40, .window_right = 30}}};
  for (const int page_size : {16, 32, 48}) {
    c.expect_right(page_size, kv_layout::nhd);
    to_both_sides.expect_right(page_size, kv_layout::hnd);
  }
}
TEST(attention_kernel_paged, heads_share_keys_in_groups_and_rows_that_see_nothing_touch_no_page) {
  for (const int group : {2, 4, 16})
    expect_pages({.q_lens = {9, 70},
                  .k_lens = {140, 30},
                  .heads = 2 * group,
                  .kv_heads = 2,
                  .options = {.causal = true},
                  .sinks = true},
                 group == 4 ? 16 : 32, group == 2 ? kv_layout::nhd : kv_layout::hnd);
}
TEST(attention_kernel_paged, pages_may_lie_apart) {
  for (const kv_layout layout : layouts) {
    const auto c = test::make_attention<bfloat16>(
        {.q_lens = {10}, .k_lens = {200}, .heads = 2, .kv_heads = 2, .head_dim = 512}, 5);
    const auto keys = test::pages_of(c, 32, layout, 3, {.page = 66});
    EXPECT_EQ(test::errors_of(c, test::run_paged_attention<paged_512>(c, keys, {}),
                              test::tensor_core_rounding<bfloat16>(512))
                  .first_wrong,
              "");
  }
}
TEST(attention_kernel_paged, where_boxes_have_32_keys_bits_are_those_of_rows) {
  const auto c = test::make_attention<bfloat16>(
      {.q_lens = {130}, .k_lens = {500}, .head_dim = 512, .options = {.causal = true}}, 5);
  const auto in_rows = test::run_attention<test::attention_of_512>(c, {});
  const auto in_pages = test::run_paged_attention<paged_512>(c, test::pages_of(c, 64, kv_layout::nhd, 3), {});
  EXPECT_TRUE(in_rows.out == in_pages.out);
  EXPECT_EQ(std::memcmp(in_rows.lse.data(), in_pages.lse.data(), in_rows.lse.size() * sizeof(float)), 0);
}
TEST(attention_kernel_paged, what_the_device_says_of_lengths_and_pages_leaves_no_tensor) {
  const auto c = test::make_attention<bfloat16>({.q_lens = {4, 4}, .k_lens = {200, 20}, .head_dim = 512}, 1);
  for (const int page_size : {16, 32}) {
    auto keys = test::pages_of(c, page_size, kv_layout::nhd, 1);
    for (std::int32_t& entry : keys.page_table) entry = entry < 0 ? entry : (entry % 2 == 0 ? -5 : 1 << 30);
    keys.seqlens = {1 << 30, -3};
    EXPECT_NO_THROW(test::run_paged_attention<paged_512>(c, keys, {}));
  }
}
TEST(attention_kernel_paged, a_cache_without_pages_gives_nothing) {
  auto c = test::make_attention<bfloat16>({.q_lens = {4}, .k_lens = {0}, .head_dim = 256}, 1);
  test::paged_keys<bfloat16> keys{.page_size = 16, .max_pages = 1};
  keys.seqlens = {30};  // of keys that there is no page for
  const auto made = test::run_paged_attention<paged_256>(c, keys, {});
  EXPECT_EQ(test::errors_of(c, made, test::tensor_core_rounding<bfloat16>(256)).first_wrong, "");
}

}  // namespace
}  // namespace baton
