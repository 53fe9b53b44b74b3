// The attention kernel when something never comes: who waits for it is on record, everybody returns, and what is made of nothing
// is not stored.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "exec/site_name.hpp"
#include "tests/support/attention_runs.hpp"
#include "tests/support/awaiting_context.hpp"

namespace baton {
namespace {

using attention_kernels::block_plan;
using attention_kernels::consumer_groups;
using attention_kernels::consumer_warps;
using attention_kernels::slot_pipeline;

/// What the second block of a cluster, or a block alone, leaves out.
enum class lost { nothing, row_values, tile, freed_tile, slot, q, freed_slot, v };

/// A context that leaves out what `what` says, by the barrier that it is counted on.
template <attention_kernels::config C>
struct losing : test::awaiting_context<losing<C>> {
  using base = test::awaiting_context<losing<C>>;
  static inline lost what = lost::nothing;
  using plan = block_plan<C>;

  using base::base;

  void box_load(void* to, const tensor_map& map, const box_place& place, mbarrier* b) {
    if (!loses(lost::slot, plan{}.slot_barriers, slot_pipeline<C>::num_mbars, b) &&
        !loses(lost::q, plan{}.q_filled, C.q_pieces(), b) &&
        !loses(lost::v, plan{}.landed, 2 * C.v_slots(), b))
      sim::context::box_load(to, map, place, b);
  }
  void box_load_to(void* to, const tensor_map& map, const box_place& place, mbarrier* b,
                   std::uint32_t blocks) {
    const bool here = loses(lost::q, plan{}.q_filled, C.q_pieces(), b);
    sim::context::box_load_to(to, map, place, b, here ? blocks & ~(1u << this->cluster_block()) : blocks);
  }
  template <class T>
  void store_counted(sim::context::reached_block there, T* to, const std::type_identity_t<T>& value,
                     mbarrier* b) {
    if (!loses(lost::row_values, plan{}.row_values_filled, 2 * consumer_warps, b) &&
        !loses(lost::tile, plan{}.p_filled, consumer_groups, b))
      sim::context::store_counted(there, to, value, b);
  }
  template <scope Reach = scope::cluster>
  void mbarrier_arrive(mbarrier* b, int n) {
    if (!loses(lost::freed_slot, plan{}.slot_barriers, slot_pipeline<C>::num_mbars, b))
      sim::context::mbarrier_arrive<Reach>(b, n);
  }
  template <scope Reach = scope::cluster>
  void mbarrier_arrive_at(mbarrier* b, int block, int n) {
    if (!loses(lost::freed_tile, plan{}.p_free, consumer_groups, b))
      sim::context::mbarrier_arrive_at<Reach>(b, block, n);
  }

 private:
  bool loses(lost one, shared_array<mbarrier> of, int count, const mbarrier* b) {
    return what == one && this->is_in_last_block(of, count, b);
  }
};

template <attention_kernels::config C>
struct failed_run {
  stuck_record record{};
  std::uint32_t abort = 0;
  bool stored = false;
};

/// One item whose last tile has keys that nobody sees.
template <attention_kernels::config C>
failed_run<C> run_without(lost what, site where = {}, const sim::options& how = {}) {
  using value = attention_kernels::value<C>;
  const auto c = test::make_attention<value>({.q_lens = {128}, .k_lens = {700}, .head_dim = C.head_dim}, 5);
  losing<C>::what = what, losing<C>::awaited = where;
  failed_run<C> run;
  const auto made = test::run_attention<C, losing<C>>(
      c, how, {.deadline_ns = 1'000'000, .abort = &run.abort, .record = &run.record});
  run.stored = std::any_of(made.out.begin(), made.out.end(),
                           [](value v) { return std::bit_cast<std::uint16_t>(v) != 0xffff; });
  return run;
}

template <attention_kernels::config C>
void expect_on_record(lost what, site where) {
  for (const sim::options& how : test::product_schedules) {
    const failed_run<C> run = run_without<C>(what, where, how);
    EXPECT_EQ(name(run.record.where), name(where));
    EXPECT_EQ(run.record.complete, 1u);
    EXPECT_GE(run.abort, 1u);
    EXPECT_FALSE(run.stored) << name(where);
  }
}

TEST(attention_failure, where_nothing_is_lost_nothing_is_on_record) {
  EXPECT_EQ(run_without<test::attention_of_512>(lost::nothing).abort, 0u);
  EXPECT_EQ(run_without<test::attention_of_256>(lost::nothing).abort, 0u);
  EXPECT_TRUE(run_without<test::attention_of_512>(lost::nothing).stored);
}
TEST(attention_failure, what_a_block_does_not_give_its_pair_is_on_record) {
  expect_on_record<test::attention_of_512>(lost::row_values, "attention.rows_given");
  expect_on_record<test::attention_of_512>(lost::tile, "attention.p_given");
  expect_on_record<test::attention_of_512>(lost::freed_tile, "attention.p_free");
}
TEST(attention_failure, what_is_not_loaded_is_on_record) {
  expect_on_record<test::attention_of_512>(lost::slot, "attention.slot_filled");
  expect_on_record<test::attention_of_256>(lost::slot, "attention.slot_filled");
  expect_on_record<test::attention_of_512>(lost::q, "attention.q_filled");
  expect_on_record<test::attention_of_256>(lost::q, "attention.q_filled");
  expect_on_record<test::attention_of_512>(lost::v, "attention.v_landed");
  expect_on_record<test::attention_of_256>(lost::v, "attention.v_landed");
}
TEST(attention_failure, slots_that_nobody_frees_are_on_record) {
  expect_on_record<test::attention_of_512>(lost::freed_slot, "attention.slot_free");
  expect_on_record<test::attention_of_256>(lost::freed_slot, "attention.slot_free");
}

}  // namespace
}  // namespace baton
