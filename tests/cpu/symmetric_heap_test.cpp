// Which memory of NVSHMEM's heap the next communicator may have: none into which something may still be on its way.
#include "runtime/symmetric_heap.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <vector>

#include "baton/error.hpp"
#include "runtime/stuck_report.hpp"
#include "tests/support/simulated_worlds.hpp"
#include "tests/support/stuck_rounds.hpp"

namespace baton::test {
namespace {

TEST(symmetric_heap, what_it_has_grown_by_is_asked_of_the_gpu_once) {
  constexpr std::size_t mib = std::size_t{1} << 20;
  std::array<std::byte, 3> at{};
  symmetric_heap heap;
  EXPECT_EQ(heap.growth_for(112 * mib), 512 * mib);
  heap.take(&at[0], 112 * mib);
  EXPECT_EQ(heap.growth_for(400 * mib), 0u);
  EXPECT_EQ(heap.growth_for(401 * mib), 512 * mib);
  heap.leave(&at[0], true);
  heap.take(&at[0], 112 * mib);  // again
  heap.take(&at[1], 400 * mib);
  EXPECT_EQ(heap.growth_for(1), 512 * mib);
  heap.take(&at[2], 513 * mib);
  EXPECT_EQ(heap.growth_for(511 * mib), 0u);
}

TEST(symmetric_heap, a_block_that_was_done_with_is_free_for_what_is_no_larger) {
  std::array<std::byte, 3> at{};
  symmetric_heap heap;
  for (std::size_t i = 0; i < at.size(); ++i) heap.take(&at[i], 100 * (i + 1));
  EXPECT_EQ(heap.free_blocks(1), 0u);
  heap.leave(&at[0], true);
  heap.leave(&at[2], true);
  EXPECT_EQ(heap.free_blocks(100), 0b101u);
  EXPECT_EQ(heap.free_blocks(101), 0b100u);
  EXPECT_EQ(heap.free_blocks(301), 0u);
  EXPECT_EQ(heap.first_of(0b101), &at[0]);
  EXPECT_EQ(heap.first_of(0b100), &at[2]);
  EXPECT_EQ(heap.first_of(0), nullptr);
  heap.take(&at[0], 50);
  EXPECT_EQ(heap.free_blocks(1), 0b100u);
  heap.leave(&at[0], true);
  EXPECT_EQ(heap.free_blocks(100), 0b101u) << "it is as large as it was";
}

TEST(symmetric_heap, a_block_into_which_something_may_still_come_is_nobodys_any_more) {
  std::array<std::byte, 2> at{};
  symmetric_heap heap;
  for (std::byte& of_one : at) heap.take(&of_one, 100);
  heap.leave(&at[0], false);
  heap.leave(&at[1], true);
  EXPECT_EQ(heap.free_blocks(1), 0b10u);
}

TEST(symmetric_heap, blocks_that_no_bit_is_for_are_not_taken_again) {
  std::array<std::byte, 65> at{};
  symmetric_heap heap;
  for (std::byte& of_one : at) heap.take(&of_one, 100);
  for (std::byte& of_one : at) heap.leave(&of_one, true);
  EXPECT_EQ(heap.free_blocks(100), ~std::uint64_t{0});
}

/// What is called on the ranks of a communicator before it is destroyed.
using calls_of_ranks = std::function<void(const exchange_case&, std::vector<exchange_rank>&)>;

/// Of two ranks in groups of `group`: for each, whether it would leave its memory to the next communicator.
std::vector<bool> is_done_with(int group, const calls_of_ranks& calls) {
  exchange_case c = case_of_eight_experts(2);
  c.config.p2p_group_size = group;
  const auto worlds = simulated_worlds(2, {});
  std::vector<detail::lost_work> before;
  for (const world& w : worlds) before.push_back(w.state().lost());
  try {
    auto ranks = make_ranks(worlds, c.config);
    calls(c, ranks);
  } catch (const std::runtime_error&) {
  }
  std::vector<bool> done;
  for (std::size_t r = 0; r < worlds.size(); ++r)
    done.push_back(is_all_done_since(worlds[r].state(), before[r]));
  return done;
}

void begin_round(const exchange_case& c, std::vector<exchange_rank>& ranks) {
  const auto inputs = draw_inputs(c, 1);
  for (std::size_t r = 0; r < ranks.size(); ++r) ranks[r].load(inputs[r]);
  for (exchange_rank& r : ranks) r.ranks().synchronize();  // which reads the inputs
  for (exchange_rank& r : ranks) r.dispatch_async();
}
void begin_to_combine(const exchange_case& c, std::vector<exchange_rank>& ranks) {
  begin_round(c, ranks);
  for (exchange_rank& r : ranks) r.dispatch_wait();
  for (exchange_rank& r : ranks) r.combine_async(static_cast<const bfloat16*>(r.received().tokens));
  for (exchange_rank& r : ranks) r.ranks().synchronize();
}

const std::vector<bool> by_all{true, true}, by_none{false, false};

TEST(symmetric_heap, a_communicator_whose_rounds_are_over_is_done_with_its_memory) {
  EXPECT_EQ(is_done_with(1, [](auto&, auto&) {}), by_all);
  EXPECT_EQ(is_done_with(1,
                         [](auto& c, auto& ranks) {
                           EXPECT_EQ(run_round(c, ranks, 1), "");
                           EXPECT_EQ(run_round(c, ranks, 2), "");
                         }),
            by_all);
}

TEST(symmetric_heap, a_communicator_that_ends_within_a_round_is_not_though_no_wait_gave_up) {
  EXPECT_EQ(is_done_with(1, begin_round), by_none);
  EXPECT_EQ(is_done_with(1, begin_to_combine), by_none);
  EXPECT_EQ(is_done_with(1,
                         [](auto& c, auto& ranks) {
                           EXPECT_EQ(run_round(c, ranks, 1), "");
                           begin_round(c, ranks);
                         }),
            by_none);
}

TEST(symmetric_heap, a_communicator_that_an_exception_ends_is_not) {
  EXPECT_EQ(is_done_with(1, [](auto&, auto&) { throw std::runtime_error{"of the caller"}; }), by_none);
}

TEST(symmetric_heap, within_a_group_nothing_is_put_that_could_come_late) {
  EXPECT_EQ(is_done_with(2, begin_round), by_all);
}

TEST(symmetric_heap, other_communicators_of_a_world_go_on_where_one_ends_within_a_round) {
  exchange_case c = case_of_eight_experts(2);
  c.config.p2p_group_size = 1;
  const auto worlds = simulated_worlds(2, {});
  auto ranks = make_ranks(worlds, c.config);
  {
    auto others = make_ranks(worlds, c.config);
    begin_round(c, others);
    for (const world& w : worlds) w.synchronize();  // what was enqueued reads the ranks' memory
  }
  EXPECT_EQ(run_round(c, ranks, 1), "");
}

TEST(symmetric_heap, a_wait_that_gave_up_counts_also_where_nobody_was_told) {
  const auto worlds = simulated_worlds(1, {});
  detail::world_state& state = worlds[0].state();
  const detail::lost_work before = state.lost();
  EXPECT_TRUE(is_all_done_since(state, before));
  state.reports.record_host->complete = 1;
  EXPECT_FALSE(is_all_done_since(state, before));
  EXPECT_THROW(throw_if_stuck(state), stuck);
  EXPECT_FALSE(is_all_done_since(state, before));
  EXPECT_TRUE(is_all_done_since(state, state.lost())) << "whoever begins anew";
}

}  // namespace
}  // namespace baton::test
