// Attention of few rows, role by role, on the CPU machine: what it makes, whatever the schedule, however it is dealt out.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/support/decode_attention_runs.hpp"

namespace baton {
namespace {

using test::attention_shape;
using test::decode_run;

template <decode_attention::config C>
void expect_right(test::known_attention<decode_attention::value<C>>& c, const decode_run& run,
                  const sim::options& how) {
  std::vector<std::byte> scratch;
  const auto found = test::errors_of(c.oracle, test::run_decode<C>(c.of, run, how, scratch));
  EXPECT_EQ(found.first_wrong, "");
  EXPECT_LE(found.rms(), C.fp16 ? 0x1p-10 : 0x1p-8) << text(c.of.shape);
  EXPECT_TRUE(std::all_of(scratch.begin(), scratch.begin() + 4096, [](std::byte b) {
    return b == std::byte{};
  })) << "what is signed is not as it was";
}

/// In every schedule, by the kernel of few rows, too, where there are few.
template <decode_attention::config C>
void expect_in_all_schedules(const attention_shape& s, const decode_run& run) {
  test::known_attention<decode_attention::value<C>> c{s, C.head_dim, 5};
  for (const sim::options& how : test::product_schedules) {
    expect_right<C>(c, run, how);
    if (*std::max_element(s.q_lens.begin(), s.q_lens.end()) * s.heads / s.kv_heads <= 16)
      expect_right<test::of_few_rows(C)>(c, run, how);
  }
}
/// Both head dimensions.
template <decode_attention::config With512 = test::decode_of_512,
          decode_attention::config With256 = test::decode_of_256>
void expect_decode(const attention_shape& s, const decode_run& run = {}) {
  expect_in_all_schedules<With256>(s, run);
  expect_in_all_schedules<With512>(s, run);
}

constexpr decode_attention::config decode_of_fp16(decode_attention::config c) {
  c.fp16 = true;
  return c;
}

TEST(decode_attention_kernel, one_block_makes_one_tile) {
  expect_decode({.q_lens = {1}, .k_lens = {64}}, {.team = 1, .teams = 1});
}
TEST(decode_attention_kernel, one_block_makes_several_tiles_in_turn) {
  expect_decode({.q_lens = {1}, .k_lens = {300}}, {.team = 1, .teams = 1, .short_units = 8});
}
TEST(decode_attention_kernel, blocks_of_a_team_share_keys) {
  for (const int team : {2, 4, 8})
    expect_decode({.q_lens = {1}, .k_lens = {200}}, {.team = team, .teams = 1});
}
TEST(decode_attention_kernel, teams_share_an_item_and_the_last_puts_it_together) {
  expect_decode({.q_lens = {1}, .k_lens = {700}}, {.team = 2, .teams = 3});
  expect_decode({.q_lens = {2, 1}, .k_lens = {700, 300}, .heads = 4, .kv_heads = 2}, {.team = 1, .teams = 5});
}
TEST(decode_attention_kernel, items_of_the_same_length_get_teams_of_their_own) {
  expect_decode({.q_lens = {1, 1}, .k_lens = {300, 290}, .heads = 2, .kv_heads = 2}, {.team = 1, .teams = 9});
  expect_decode({.q_lens = {8}, .k_lens = {300}, .heads = 16}, {.team = 2, .teams = 4});
}
TEST(decode_attention_kernel, what_is_walked_to_before_others_know_the_work_is_what_lengths_say) {
  for (const int teams : {6, 12})
    expect_decode({.q_lens = {1, 1, 1}, .k_lens = {262, 380, 300}, .heads = 2, .kv_heads = 2},
                  {.team = 1, .teams = teams, .equal_rows = true});
}

/// Counts how many slots of its ring a block has filled that are not free again.
template <decode_attention::config C>
struct counted_slots : sim::context {
  static constexpr int most_blocks = 8;
  struct ring {
    int in_use = 0, most = 0;
    std::array<int, C.slots> arrivals{};  // of those that free each slot
  };
  static inline std::array<ring, most_blocks> rings;

  explicit counted_slots(const sim::context& x) : sim::context{x} {}

  template <scope Reach = scope::cluster>
  void mbarrier_arrive_expect(mbarrier* b, int bytes) {
    ring& r = own();
    if (const std::ptrdiff_t at = place_of(b); at >= 0 && at < C.slots) r.most = std::max(r.most, ++r.in_use);
    sim::context::mbarrier_arrive_expect<Reach>(b, bytes);
  }
  template <scope Reach = scope::cluster>
  void mbarrier_arrive(mbarrier* b, int n) {
    if (const std::ptrdiff_t at = place_of(b) - C.slots; at >= 0 && at < C.slots)
      own().in_use -= ++own().arrivals[static_cast<std::size_t>(at)] % decode_attention::consumer_warps == 0;
    sim::context::mbarrier_arrive<Reach>(b, n);
  }

 private:
  ring& own() { return rings[static_cast<std::size_t>(this->block())]; }
  std::ptrdiff_t place_of(const mbarrier* b) {
    return b - decode_attention::block_plan<C>{}.slot_barriers(*this);
  }
};

TEST(decode_attention_kernel, blocks_of_items_with_a_team_more_leave_slots_empty) {
  static constexpr decode_attention::config few = test::of_few_rows(test::decode_of_256);
  const auto slots_of = [](int keys, int teams) {  // of two items
    const auto c = test::make_attention<bfloat16>(
        {.q_lens = {1}, .k_lens = {keys}, .heads = 2, .kv_heads = 2, .head_dim = few.head_dim}, 5);
    counted_slots<few>::rings = {};
    std::vector<std::byte> scratch;
    test::run_decode<few, counted_slots<few>>(c, {.team = 1, .teams = teams}, {}, scratch);
    std::vector<int> most;
    for (int team = 0; team < teams; ++team)
      most.push_back(counted_slots<few>::rings[static_cast<std::size_t>(team)].most);
    return most;
  };
  EXPECT_EQ(few.slots, 6);
  EXPECT_EQ(slots_of(1536, 7), (std::vector<int>{6, 6, 6, 4, 4, 4, 4})) << "three teams, and four";
  EXPECT_EQ(slots_of(1536, 6), (std::vector<int>(6, 6))) << "as many";
}

TEST(decode_attention_kernel, pages_of_more_keys_than_are_looked_up_at_a_time_are_right) {
  test::known_attention<bfloat16> c{{.q_lens = {1}, .k_lens = {600}}, 256, 5};
  for (const sim::options& how : test::product_schedules)
    expect_right<test::of_few_rows(test::decode_of_256)>(c, {.team = 1, .teams = 1}, how);
}
TEST(decode_attention_kernel, cuts_of_a_line_are_the_same_in_words_and_in_more) {
  for (const int total : {1, 1'000, (1 << 20) - 1, 1 << 20, std::numeric_limits<int>::max()})
    for (const int parts : {1, 7, 160, 1'023, 1'024})
      for (const int n : {0, 1, parts / 2, parts}) {
        const std::int64_t product = std::int64_t{total} * n, place = product / parts;
        EXPECT_EQ(decode_attention::scaled(total, n, parts), place) << total << " " << parts << " " << n;
        EXPECT_EQ(decode_attention::scaled(static_cast<int>(place), parts, total, total - 1),
                  (place * parts + total - 1) / total)
            << total << " " << parts << " " << n;
      }
}
TEST(decode_attention_kernel, lengths_around_borders_of_pieces_and_tiles_are_right) {
  expect_decode({.q_lens = {1, 1, 1, 1, 1, 1}, .k_lens = {1, 15, 16, 17, 65, 127}});
}
TEST(decode_attention_kernel, sequences_without_rows_or_keys_are_right) {
  expect_decode({.q_lens = {1, 0, 2, 1}, .k_lens = {0, 40, 0, 33}, .tail = 2});
}
TEST(decode_attention_kernel, heads_share_keys_in_groups) {
  for (const int group : {1, 3, 8, 16})
    expect_decode({.q_lens = {1, 3}, .k_lens = {100, 40}, .heads = 2 * group, .kv_heads = 2});
}
TEST(decode_attention_kernel, more_rows_than_one_product_has_are_made_in_blocks) {
  expect_decode({.q_lens = {8}, .k_lens = {150}, .heads = 16, .options = {.causal = true}});
}
TEST(decode_attention_kernel, rows_see_no_key_behind_their_own) {
  expect_decode({.q_lens = {5, 8}, .k_lens = {70, 4}, .heads = 4, .options = {.causal = true}});
}
TEST(decode_attention_kernel, rows_see_a_window_of_keys) {
  expect_decode({.q_lens = {4}, .k_lens = {300}, .options = {.causal = true, .window_left = 100}});
  expect_decode({.q_lens = {4}, .k_lens = {200}, .options = {.window_left = 70, .window_right = 1}});
}
TEST(decode_attention_kernel, pages_of_every_size_and_layout_are_read) {
  for (const int page_size : {16, 48, 64})
    for (const kv_layout layout : {kv_layout::nhd, kv_layout::hnd})
      expect_decode({.q_lens = {1, 1}, .k_lens = {130, 97}, .heads = 4, .kv_heads = 2},
                    {.page_size = page_size, .layout = layout, .page_gap = 1});
}
TEST(decode_attention_kernel, sequences_with_as_many_rows_each_have_their_lse_by_sequence) {
  expect_decode({.q_lens = {6, 6}, .k_lens = {90, 40}, .heads = 32, .kv_heads = 2}, {.equal_rows = true});
}
TEST(decode_attention_kernel, takes_fp16) {
  expect_decode<decode_of_fp16(test::decode_of_512), decode_of_fp16(test::decode_of_256)>(
      {.q_lens = {2, 1}, .k_lens = {300, 70}, .heads = 4, .kv_heads = 2, .options = {.causal = true}});
}
TEST(decode_attention_kernel, scores_are_capped) {
  expect_decode(
      {.q_lens = {3}, .k_lens = {300}, .heads = 4, .options = {.causal = true, .softcap = 3}, .spread = 4});
  // What scores are multiplied by is below all numbers.
  expect_decode({.q_lens = {2}, .k_lens = {100}, .heads = 2, .options = {.scale = 1e-8f, .softcap = 1e38f}});
}
TEST(decode_attention_kernel,
     sinks_take_their_share_of_whole_and_of_cut_items_and_none_where_no_key_is_seen) {
  expect_decode({.q_lens = {2, 1, 1}, .k_lens = {140, 3, 0}, .heads = 8, .kv_heads = 2, .sinks = true});
  expect_decode({.q_lens = {2}, .k_lens = {700}, .heads = 8, .kv_heads = 2, .sinks = true}, {.teams = 3});
}
TEST(decode_attention_kernel, sums_are_scaled_again_where_scores_grow) {
  expect_decode({.q_lens = {4}, .k_lens = {700}, .heads = 4, .spread = 24}, {.teams = 3});
}

}  // namespace
}  // namespace baton
