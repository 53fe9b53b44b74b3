// What kernels of attention may not do, whatever they are given: touch memory before the kernels before them have ended, write
// what is not theirs, or leave out items.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "tests/support/attention_runs.hpp"
#include "tests/support/decode_attention_runs.hpp"
#include "tests/support/dependent_context.hpp"

namespace baton {
namespace {

using attention_kernels::item_order;
using test::dependent_context;

constexpr attention_kernels::config bounds_paged_256 =
    attention_kernels::make_config(256, false, false, true);

void expect_no_early_access(int warps) {
  EXPECT_EQ(dependent_context::waited, warps);
  EXPECT_EQ(dependent_context::early, 0);
  dependent_context::waited = dependent_context::early = 0;
}

TEST(attention_kernel_bounds, nothing_is_touched_before_the_kernels_before_have_ended) {
  dependent_context::waited = dependent_context::early = 0;
  const auto c = test::make_attention<bfloat16>({.q_lens = {3}, .k_lens = {150}, .head_dim = 512}, 1);
  test::run_attention<test::attention_of_512, dependent_context>(c, {});
  expect_no_early_access(2 * attention_kernels::num_warps);
  const auto narrow = test::make_attention<bfloat16>({.q_lens = {2}, .k_lens = {150}, .head_dim = 256}, 1);
  test::run_paged_attention<bounds_paged_256, dependent_context>(
      narrow, test::pages_of(narrow, 16, kv_layout::nhd, 1), {});
  expect_no_early_access(attention_kernels::num_warps);
  std::vector<std::byte> scratch;
  test::run_decode<test::decode_of_256, dependent_context>(narrow, {}, {}, scratch);
  expect_no_early_access(4 * decode_attention::num_warps);
}

/// `dependent_context` tells of other lengths as long as the kernels before may be writing them.
TEST(attention_kernel_bounds, few_rows_are_dealt_out_by_lengths_as_the_kernels_before_leave_them) {
  for (const int second : {300, 40}) {
    const auto c = test::make_attention<bfloat16>(
        {.q_lens = {1, 1}, .k_lens = {300, second}, .heads = 2, .kv_heads = 2, .head_dim = 256}, 1);
    const auto expect_right = [&](const auto& made) {
      EXPECT_EQ(test::errors_of(c, made, test::tensor_core_rounding<bfloat16>(256)).first_wrong, "");
    };
    for (const bool equal_rows : {false, true}) {
      const test::decode_run run{.teams = 5, .equal_rows = equal_rows};
      std::vector<std::byte> scratch;
      expect_right(test::run_decode<test::decode_of_256, dependent_context>(c, run, {}, scratch));
      expect_right(
          test::run_decode<test::of_few_rows(test::decode_of_256), dependent_context>(c, run, {}, scratch));
    }
  }
}

/// The head and block of every item.
std::vector<std::pair<int, int>> items_of(const item_order& asked) {
  const item_order o = asked.worked_out();
  std::vector<std::pair<int, int>> all;
  for (int n = 0; n < o.blocks * o.all_heads; ++n) {
    const auto at = attention_kernels::place_of(o, n);
    all.emplace_back(at.head_of_all, at.block);
  }
  return all;
}

TEST(attention_kernel_bounds, every_block_of_every_head_is_an_item_once) {
  for (const bool longest_first : {false, true})
    for (const int heads_together : {1, 2, 3, 4, 7, 8})
      for (const int blocks : {1, 2, 5}) {
        const item_order o{.blocks = blocks,
                           .heads = 4,
                           .all_heads = 8,
                           .heads_together = heads_together,
                           .longest_first = longest_first};
        const auto items = items_of(o);
        const std::set<std::pair<int, int>> once{items.begin(), items.end()};
        EXPECT_EQ(once.size(), items.size()) << heads_together << " heads together, " << blocks << " blocks";
        EXPECT_EQ(once.begin()->first, 0);
        EXPECT_EQ(*once.rbegin(), std::pair(7, blocks - 1));
      }
}
TEST(attention_kernel_bounds,
     of_heads_that_go_together_the_longest_rows_go_first_and_the_rest_of_heads_before_them) {
  const auto items =
      items_of({.blocks = 2, .heads = 3, .all_heads = 3, .heads_together = 2, .longest_first = true});
  const std::vector<std::pair<int, int>> expected{{0, 1}, {0, 0}, {1, 1}, {2, 1}, {1, 0}, {2, 0}};
  EXPECT_EQ(items, expected);
}

/// Rows with another gap behind them in each tensor; gaps are NaN, and stay.
template <attention_kernels::config C>
void expect_right_with_gaps() {
  using test::attention_detail::joined_rows, test::attention_detail::spread_rows;
  const auto c = test::make_attention<bfloat16>(
      {.q_lens = {70, 3}, .k_lens = {150, 40}, .heads = 2, .kv_heads = 1, .head_dim = C.head_dim}, 1);
  constexpr std::size_t row_of_k = C.head_dim, row_of_q = 2 * row_of_k, gap = 64;
  test::attention_result<bfloat16> made;
  varlen_attention_problem<bfloat16> p;
  test::give_to(p, c, made);
  const auto q = spread_rows<bfloat16>(c.q, row_of_q, gap), k = spread_rows<bfloat16>(c.k, row_of_k, 2 * gap),
             v = spread_rows<bfloat16>(c.v, row_of_k, 3 * gap);
  auto out = spread_rows<bfloat16>(made.out, row_of_q, 4 * gap);
  p.q = q.data(), p.k = k.data(), p.v = v.data(), p.out = out.data();
  p.q_stride = row_of_q + gap, p.k_stride = row_of_k + 2 * gap, p.v_stride = row_of_k + 3 * gap;
  p.out_stride = row_of_q + 4 * gap;
  p.cu_seqlens_q = c.cu_q.data(), p.cu_seqlens_k = c.cu_k.data();
  p.max_seqlen_q = 70, p.max_seqlen_k = 150, p.total_k = c.total_k();
  test::run_kernel<C, sim::context>(p, {}, {.deadline_ns = 1'000'000});
  made.out = joined_rows<bfloat16>(out, row_of_q, 4 * gap);
  EXPECT_EQ(test::errors_of(c, made, test::tensor_core_rounding<bfloat16>(C.head_dim)).first_wrong, "");
  EXPECT_TRUE(out == spread_rows<bfloat16>(made.out, row_of_q, 4 * gap)) << "gaps are written";
}
TEST(attention_kernel_bounds, each_tensor_has_gaps_of_its_own) {
  expect_right_with_gaps<test::attention_of_128>();
  expect_right_with_gaps<test::attention_of_256>();
  expect_right_with_gaps<test::attention_of_512>();
}

/// As few slots as a kernel can have: each is filled again as soon as it is said to be free.
constexpr attention_kernels::config with_few_slots(attention_kernels::config c) {
  c.slots = c.k_slots() + 2;
  return c;
}
template <attention_kernels::config C>
void expect_right_in_schedules_of(std::uint64_t seeds) {
  test::known_attention<bfloat16> c{{.q_lens = {128}, .k_lens = {450}}, C.head_dim, 1};
  for (std::uint64_t seed = 1; seed <= seeds; ++seed)
    for (const sim::schedule order : {sim::schedule::random, sim::schedule::priority}) {
      const sim::options how{.order = order, .seed = seed, .delay_stores = true, .faults = {}};
      EXPECT_EQ(test::errors_of(c.oracle, test::run_attention<C>(c.of, how)).first_wrong, "")
          << "seed " << seed;
    }
}
TEST(attention_kernel_bounds, slots_are_free_when_their_products_are_over) {
  expect_right_in_schedules_of<with_few_slots(test::attention_of_128)>(12);
  expect_right_in_schedules_of<with_few_slots(test::attention_of_256)>(12);
  expect_right_in_schedules_of<with_few_slots(test::attention_of_512)>(2);
}

/// Outputs with memory around them that nobody may write to.
struct guarded_outputs {
  static constexpr std::size_t margin = 1 << 16;
  std::vector<bfloat16> out;
  std::vector<float> lse;

  template <class Problem>
  guarded_outputs(Problem& p, std::size_t values, std::size_t rows)
      : out(values + 2 * margin, bfloat16::from_bits(0xffff)), lse(rows + 2 * margin, 7.0f) {
    p.out = out.data() + margin;
    p.lse = lse.data() + margin;
  }
  bool are_kept() const {
    const auto kept = [](const auto& all, auto as) {
      return std::all_of(all.begin(), all.begin() + margin, as) &&
             std::all_of(all.end() - margin, all.end(), as);
    };
    return kept(out, [](bfloat16 v) { return v.bits == 0xffff; }) &&
           kept(lse, [](float v) { return v == 7.0f; });
  }
};

constexpr int least_int = std::numeric_limits<int>::min(), most_int = std::numeric_limits<int>::max();
/// Where three sequences are said to begin and to end.
const std::vector<std::int32_t> wrong_ends[] = {{-5, 2, 4, 6},
                                                {0, 2, 4, 9},
                                                {0, 100, 4, 6},
                                                {6, 4, 2, 0},
                                                {0, 2, 4, most_int},
                                                {-90, 6, 0, 6},
                                                {least_int / 2, 1, 2, 200}};

TEST(attention_kernel_bounds, lengths_that_are_wrong_write_nothing_beside_the_outputs) {
  auto c = test::make_attention<bfloat16>({.q_lens = {2, 2, 2}, .k_lens = {20, 30, 40}, .head_dim = 256}, 1);
  for (const auto& ends : wrong_ends)
    for (const bool of_keys : {false, true}) {
      test::attention_result<bfloat16> unused;
      varlen_attention_problem<bfloat16> p;
      test::give_to(p, c, unused);
      guarded_outputs outputs{p, c.q.size(), 6};
      p.k = c.k.data(), p.v = c.v.data();
      p.cu_seqlens_q = of_keys ? c.cu_q.data() : ends.data();
      p.cu_seqlens_k = of_keys ? ends.data() : c.cu_k.data();
      p.max_seqlen_q = 2, p.max_seqlen_k = 40, p.total_k = 90;
      test::run_kernel<test::attention_of_256, sim::context>(p, {}, {.deadline_ns = 1'000'000});
      EXPECT_TRUE(outputs.are_kept()) << "ends " << ends[0] << ", " << ends[1] << ", " << ends[2] << ", "
                                      << ends[3] << (of_keys ? " of keys" : " of rows");
    }
}
TEST(attention_kernel_bounds, pages_and_lengths_that_are_wrong_write_nothing_beside_the_outputs) {
  auto c = test::make_attention<bfloat16>({.q_lens = {2, 2, 2}, .k_lens = {20, 30, 40}, .head_dim = 256}, 1);
  auto keys = test::pages_of(c, 16, kv_layout::nhd, 1);
  for (std::size_t i = 0; i < keys.page_table.size(); ++i)
    keys.page_table[i] = std::vector{-1, most_int, least_int, 1, 1000}[i % 5];
  keys.seqlens = {-3, most_int, 1000};
  for (const auto& ends : wrong_ends) {
    test::attention_result<bfloat16> unused{c.q, std::vector<float>(6)};
    auto p = test::decode_problem_of(c, keys, unused);
    guarded_outputs outputs{p, c.q.size(), 6};
    p.cu_seqlens_q = ends.data();
    test::run_kernel<bounds_paged_256, sim::context>(p, {}, {.deadline_ns = 1'000'000});
    EXPECT_TRUE(outputs.are_kept()) << "rows' ends " << ends[0] << ", " << ends[1] << ", " << ends[2] << ", "
                                    << ends[3];
    const auto asked = attention_kernels::operands_of(p);
    std::vector<std::byte> scratch(decode_attention::scratch_of(asked).bytes);
    const auto of_few_rows = decode_attention::params_of<test::decode_of_256>(
        asked, scratch.data(), [](const tensor_boxes& boxes) { return sim::make_box_map(boxes); });
    const sim::grid grid{.blocks = 4,
                         .warps = decode_attention::num_warps,
                         .shared_bytes = decode_attention::block_plan<test::decode_of_256>{}.bytes,
                         .limits = {.deadline_ns = 1'000'000},
                         .cluster = 2};
    test::run_on_machine<decode_attention::decode_kernel<constant<test::decode_of_256>>>({}, grid,
                                                                                         of_few_rows);
    EXPECT_TRUE(outputs.are_kept()) << "of few rows, ends " << ends[0] << ", " << ends[1] << ", " << ends[2];
  }
}

}  // namespace
}  // namespace baton
