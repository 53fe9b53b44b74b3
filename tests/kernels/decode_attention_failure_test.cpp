// Attention of few rows when something never comes, or its caller's memory holds what it cannot: it is on record, and everybody
// returns.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "exec/site_name.hpp"
#include "runtime/stuck_report.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/awaiting_context.hpp"
#include "tests/support/decode_attention_runs.hpp"

namespace baton {
namespace {

using test::decode_run;

/// What the last block of a team leaves out, by the barrier that it is counted on.
enum class lost_in_decode { nothing, slot, freed_slot, q, freed_q, handed_rows, taken_rows };

template <decode_attention::config C>
struct losing_decode : test::awaiting_context<losing_decode<C>> {
  using base = test::awaiting_context<losing_decode<C>>;
  static inline lost_in_decode what = lost_in_decode::nothing;
  using plan = decode_attention::block_plan<C>;
  static constexpr int slot_barriers = decode_attention::slot_pipeline<C>::num_mbars;

  using base::base;

  void box_load(void* to, const tensor_map& map, const box_place& place, mbarrier* b) {
    if (!loses(lost_in_decode::slot, plan{}.slot_barriers, slot_barriers, b) &&
        !loses(lost_in_decode::q, plan{}.q_filled, 1, b))
      sim::context::box_load(to, map, place, b);
  }
  void box_load_once(void* to, const tensor_map& map, const box_place& place, mbarrier* b) {
    box_load(to, map, place, b);
  }
  template <scope Reach = scope::cluster>
  void mbarrier_arrive(mbarrier* b, int n) {
    if (!loses(lost_in_decode::freed_slot, plan{}.slot_barriers, slot_barriers, b) &&
        !loses(lost_in_decode::freed_q, plan{}.q_free, 1, b))
      sim::context::mbarrier_arrive<Reach>(b, n);
  }
  template <class T>
  void store_counted(sim::context::reached_block there, T* to, const std::type_identity_t<T>& value,
                     mbarrier* b) {
    if (!loses(lost_in_decode::handed_rows, plan{}.rows_there, 1, b))
      sim::context::store_counted(there, to, value, b);
  }
  template <scope Reach = scope::cluster>
  void mbarrier_arrive_at(mbarrier* b, int block, int n) {
    if (!loses(lost_in_decode::handed_rows, plan{}.rows_there, 1, b) &&
        !loses(lost_in_decode::taken_rows, plan{}.rows_taken, 1, b))
      sim::context::mbarrier_arrive_at<Reach>(b, block, n);
  }

 private:
  bool loses(lost_in_decode one, shared_array<mbarrier> of, int count, const mbarrier* b) {
    return what == one && this->is_in_last_block(of, count, b);
  }
};

struct failed_decode {
  stuck_record record{};
  std::uint32_t abort = 0;
};

/// Two items of two rounds of rows, of which a block has more tiles than its ring has slots.
template <decode_attention::config C>
failed_decode decode_without(lost_in_decode what, site where, const sim::options& how,
                             std::vector<std::byte>& scratch, const decode_run& run = {.teams = 1}) {
  using value = decode_attention::value<C>;
  const auto c = test::make_attention<value>(
      {.q_lens = {C.rows == 16 ? 1 : 2}, .k_lens = {700}, .heads = 32, .kv_heads = 2, .head_dim = C.head_dim},
      5);
  losing_decode<C>::what = what, losing_decode<C>::awaited = where;
  failed_decode made;
  test::run_decode<C, losing_decode<C>>(
      c, run, how, scratch, {.deadline_ns = 1'000'000, .abort = &made.abort, .record = &made.record});
  return made;
}
template <decode_attention::config C>
void expect_decode_on_record(lost_in_decode what, site where) {
  for (const sim::options& how : test::product_schedules) {
    std::vector<std::byte> scratch;
    const failed_decode run = decode_without<C>(what, where, how, scratch);
    EXPECT_EQ(name(run.record.where), name(where));
    EXPECT_EQ(run.record.complete, 1u);
    EXPECT_GE(run.abort, 1u);
  }
}
void expect_decode_on_record(lost_in_decode what, site where) {
  expect_decode_on_record<test::decode_of_512>(what, where);
  expect_decode_on_record<test::decode_of_256>(what, where);
  expect_decode_on_record<test::of_few_rows(test::decode_of_512)>(what, where);
}

TEST(decode_attention_failure, where_nothing_is_lost_nothing_is_on_record) {
  std::vector<std::byte> scratch;
  EXPECT_EQ(decode_without<test::decode_of_512>(lost_in_decode::nothing, {}, {}, scratch).abort, 0u);
  EXPECT_EQ(decode_without<test::decode_of_256>(lost_in_decode::nothing, {}, {}, scratch).abort, 0u);
  constexpr decode_attention::config few = test::of_few_rows(test::decode_of_512);
  EXPECT_EQ(decode_without<few>(lost_in_decode::nothing, {}, {}, scratch).abort, 0u);
}
TEST(decode_attention_failure, what_is_not_loaded_is_on_record) {
  expect_decode_on_record(lost_in_decode::slot, "decode.slot_filled");
  expect_decode_on_record(lost_in_decode::q, "decode.q_filled");
}
TEST(decode_attention_failure, what_nobody_frees_is_on_record) {
  expect_decode_on_record(lost_in_decode::freed_slot, "decode.slot_free");
  expect_decode_on_record(lost_in_decode::freed_q, "decode.q_free");
}
TEST(decode_attention_failure, rows_that_a_block_does_not_hand_over_or_take_are_on_record) {
  expect_decode_on_record(lost_in_decode::handed_rows, "decode.rows_there");
  expect_decode_on_record(lost_in_decode::taken_rows, "decode.rows_taken");
}

const decode_run cut_run{.team = 2, .teams = 3};

failed_decode decode_over(std::vector<std::byte>& scratch, const sim::options& how = {}) {
  return decode_without<test::decode_of_256>(lost_in_decode::nothing, {}, how, scratch, cut_run);
}

TEST(decode_attention_failure, scratch_that_no_call_can_have_left_so_is_on_record) {
  for (const sim::options& how : test::product_schedules)
    for (const std::uint32_t left : {1u, 2u, 0xffu, 0x3f800000u, 0xffffffffu}) {
      std::vector<std::byte> scratch(4096);
      for (std::size_t i = 0; i < scratch.size(); i += sizeof left)
        std::memcpy(&scratch[i], &left, sizeof left);
      const failed_decode run = decode_over(scratch, how);
      EXPECT_EQ(name(run.record.where), "decode.parts_signed") << left;
      EXPECT_EQ(run.record.waited_ns, 0u);
      EXPECT_GE(run.abort, 1u);
    }
}
TEST(decode_attention_failure, scratch_of_a_call_that_failed_is_noticed_by_the_next) {
  for (const sim::options& how : test::product_schedules) {
    std::vector<std::byte> scratch;
    EXPECT_GE(
        decode_without<test::decode_of_256>(lost_in_decode::slot, "decode.slot_filled", how, scratch, cut_run)
            .abort,
        1u);
    EXPECT_EQ(name(decode_over(scratch, how).record.where), "decode.parts_signed");
  }
}
TEST(decode_attention_failure, a_report_of_scratch_says_what_it_may_be) {
  std::vector<std::byte> scratch(4096, std::byte{1});
  EXPECT_TRUE(test::says(stuck_text(decode_over(scratch).record),
                         "rank 0 refused what it found at decode.parts_signed", "saw 0x1010101",
                         "scratch was not zero"));
}

}  // namespace
}  // namespace baton
