// The barrier block of depth-256/512 pair attention against its documented values.
#include "protocol/pair_attention/depth512_mbars.hpp"

#include <gtest/gtest.h>

#include <type_traits>
#include <vector>

#include "sim/context.hpp"
#include "sim/mbarrier_model.hpp"

namespace baton {
namespace {

// Both variants' fixed barriers in order, with the arrivals of a phase.
struct documented_block {
  int po_lo, po_hi, s_even_consumer, s_odd_consumer, c_producer, c_consumer, s_even_producer, s_odd_producer,
      o_mma_lo, o_mma_hi, num_fixed, num_high_count;
  std::vector<int> counts;
};
const documented_block& expected(bool split_o) {
  static const documented_block depth_512{
      0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 6, {512, 256, 256, 256, 128, 128, 1, 1, 1, 1}};
  static const documented_block depth_256{
      0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 8, 5, {512, 256, 256, 128, 128, 1, 1, 1}};
  return split_o ? depth_512 : depth_256;
}

template <class Bars>
void expect_documented(int num_kv_stages, bool split_o) {
  const documented_block& d = expected(split_o);
  EXPECT_EQ(Bars::po_lo_offset, d.po_lo);
  EXPECT_EQ(Bars::po_hi_offset, d.po_hi);
  EXPECT_EQ(Bars::s_even_consumer_offset, d.s_even_consumer);
  EXPECT_EQ(Bars::s_odd_consumer_offset, d.s_odd_consumer);
  EXPECT_EQ(Bars::c_producer_offset, d.c_producer);
  EXPECT_EQ(Bars::c_consumer_offset, d.c_consumer);
  EXPECT_EQ(Bars::s_even_producer_offset, d.s_even_producer);
  EXPECT_EQ(Bars::s_odd_producer_offset, d.s_odd_producer);
  EXPECT_EQ(Bars::o_mma_lo_offset, d.o_mma_lo);
  EXPECT_EQ(Bars::o_mma_hi_offset, d.o_mma_hi);
  EXPECT_EQ(Bars::num_fixed, d.num_fixed);
  EXPECT_EQ(Bars::num_high_count_barriers, d.num_high_count);
  EXPECT_EQ(Bars::kv_offset, d.num_fixed);
  EXPECT_EQ(Bars::kv_barriers, 2 * num_kv_stages);
  EXPECT_EQ(Bars::size, d.num_fixed + 2 * num_kv_stages);
  EXPECT_EQ(Bars::num_mbars(), static_cast<std::uint32_t>(Bars::size));
  for (int i = 0; i < Bars::size; ++i)
    EXPECT_EQ(Bars::count(i), i < d.num_fixed ? d.counts[static_cast<std::size_t>(i)] : 1) << "barrier " << i;
}

TEST(depth512_mbars, offsets_sizes_and_counts_are_the_documented_ones_at_depth_512) {
  expect_documented<depth512_mbars<2>>(2, true);
  expect_documented<depth512_mbars<4>>(4, true);
  expect_documented<depth512_mbars<11>>(11, true);  // 32 barriers: one wave
  static_assert(depth512_mbars<11>::size == 32);
}

TEST(depth512_mbars, offsets_sizes_and_counts_are_the_documented_ones_at_depth_256) {
  expect_documented<depth512_mbars<2, false>>(2, false);
  expect_documented<depth512_mbars<8, false>>(8, false);
  expect_documented<depth512_mbars<12, false>>(12, false);
  static_assert(depth512_mbars<12, false>::size == 32);
}

TEST(depth512_mbars, counts_scale_with_the_arrivals_of_a_role) {
  using one_arrival_a_warp = depth512_mbars<4, true, 4, 1>;
  using one_warp_a_role = depth512_mbars<4, true, 1, 1>;
  const std::vector<int> a_warp{16, 8, 8, 8, 4, 4, 1, 1, 1, 1}, a_role{4, 2, 2, 2, 1, 1, 1, 1, 1, 1};
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(one_arrival_a_warp::count(i), a_warp[static_cast<std::size_t>(i)]);
    EXPECT_EQ(one_warp_a_role::count(i), a_role[static_cast<std::size_t>(i)]);
  }
}

// The documented types of the ends: which side, how many stages, which group of blocks.
static_assert(std::is_same_v<depth512_mbars<4>::s_pipeline_producer, role_pipeline<1, true, 1, 1, 2>>);
static_assert(std::is_same_v<depth512_mbars<4>::s_pipeline_consumer, role_pipeline<1, false>>);
static_assert(std::is_same_v<decltype(depth512_mbars<4>{}.producer_c()), role_pipeline<1>>);
static_assert(std::is_same_v<decltype(depth512_mbars<4>{}.consumer_c()), role_pipeline<1, false>>);

template <class End>
concept can_acquire = requires(End e, sim::context& x) {
  e.acquire(x, wait_site{});
};
template <class End>
concept can_commit = requires(End e, sim::context& x) {
  e.commit(x);
};
template <class End>
concept can_wait = requires(End e, sim::context& x) {
  e.wait(x, wait_site{});
};
template <class End>
concept can_release = requires(End e, sim::context& x) {
  e.release(x);
};
template <class Bars>
concept has_a_second_half = requires(const Bars& b) {
  b.producer_o_hi(), b.consumer_o_hi(), b.po_hi_mbar();
};

TEST(role_pipeline, an_end_has_the_verbs_of_its_side_only) {
  EXPECT_TRUE((can_acquire<role_pipeline<2>> && can_commit<role_pipeline<2>>));
  EXPECT_FALSE((can_wait<role_pipeline<2>> || can_release<role_pipeline<2>>));
  EXPECT_TRUE((can_wait<role_pipeline<2, false>> && can_release<role_pipeline<2, false>>));
  EXPECT_FALSE((can_acquire<role_pipeline<2, false>> || can_commit<role_pipeline<2, false>>));
}

TEST(depth512_mbars, the_second_output_half_exists_only_at_depth_512) {
  EXPECT_TRUE((has_a_second_half<depth512_mbars<4>>));
  EXPECT_FALSE((has_a_second_half<depth512_mbars<8, false>>));
}

template <class End>
void expect_end(const End& end, const mbarrier* base, int producer, int consumer, parity first) {
  EXPECT_EQ(end.producer_barrier() - base, producer);
  EXPECT_EQ(end.consumer_barrier() - base, consumer);
  EXPECT_EQ(end.next_parity(), first);
}

TEST(depth512_mbars, accessors_give_the_documented_barriers_and_first_parities) {
  mbarrier cells[32] = {};
  const depth512_mbars<4> b{cells};
  using p = parity;
  expect_end(b.producer_s_even(), cells, 6, 2, p::odd);
  expect_end(b.producer_s_odd(), cells, 7, 3, p::odd);
  expect_end(b.consumer_s_even(), cells, 6, 2, p::even);
  expect_end(b.consumer_s_odd(), cells, 7, 3, p::even);
  expect_end(b.producer_c(), cells, 4, 5, p::odd);
  expect_end(b.consumer_c(), cells, 4, 5, p::even);
  expect_end(b.producer_o_lo(), cells, 8, 0, p::even);  // its first acquire blocks
  expect_end(b.producer_o_hi(), cells, 9, 1, p::even);
  expect_end(b.consumer_o_lo(), cells, 8, 0, p::even);
  expect_end(b.consumer_o_hi(), cells, 9, 1, p::even);
  EXPECT_EQ(b.po_lo_mbar() - cells, 0);
  EXPECT_EQ(b.po_hi_mbar() - cells, 1);
  EXPECT_EQ(b.get_kv_mbars() - cells, 10);
  const depth512_mbars<8, false> d256{cells};
  expect_end(d256.producer_s_even(), cells, 5, 1, p::odd);
  expect_end(d256.consumer_o_lo(), cells, 7, 0, p::even);
  EXPECT_EQ(d256.get_kv_mbars() - cells, 8);
}

TEST(staged_pipeline, producer_barriers_come_first_and_consumer_barriers_after_all_of_them) {
  mbarrier cells[32] = {};
  using ring = staged_pipeline<3, 2>;
  static_assert(ring::total_stages == 6 && ring::num_mbars == 12);
  auto producer = ring{cells}.producer();
  const auto consumer = ring{cells}.consumer();
  EXPECT_EQ(consumer.producer_mbar(1) - cells, 1);
  EXPECT_EQ(consumer.consumer_mbar(1) - cells, 7);
  producer.step();
  EXPECT_EQ(producer.producer_mbar() - cells, 2);
  EXPECT_EQ(producer.consumer_mbar(1) - cells, 9);
  producer.step(), producer.step();
  EXPECT_EQ(producer.index(), 0);
}

/// Notes what it is asked to commit to.
struct noting_engine {
  std::vector<const mbarrier*> asked;
  void commit(sim::context&, mbarrier* b, commit_to) { asked.push_back(b); }
};

TEST(staged_pipeline, a_stage_is_released_later_where_it_would_have_been_at_once) {
  mbarrier cells[32] = {};
  noting_engine at_once, later;
  sim::machine machine{1};
  machine.launch(0, {}, [&](sim::context& x) {
    auto consumer = staged_pipeline<3, 2>{cells}.consumer();
    for (int stage = 0; stage < 3; ++stage) {
      consumer.consumer_release<0>(x, at_once);
      consumer.consumer_release<1>(x, at_once);
    }
    for (int stage = 0; stage < 3; ++stage) {
      consumer.consumer_release_at<0>(x, later, stage);
      consumer.consumer_release_at<1>(x, later, stage);
    }
  });
  machine.run(0);
  EXPECT_EQ(at_once.asked.size(), 6u);
  EXPECT_EQ(at_once.asked, later.asked);
}

TEST(pipeline_state, flips_parity_each_time_around) {
  pipeline_state<3> s;
  for (int n = 0; n < 20; ++n, s.step()) {
    EXPECT_EQ(s.index, n % 3);
    EXPECT_EQ(s.parity, parity_of(static_cast<std::uint32_t>(n / 3)));
  }
}

TEST(depth512_mbars, one_call_a_lane_initialises_all_barriers_and_no_memory_beyond) {
  using bars = depth512_mbars<4>;
  sim::machine machine{1};
  std::vector<std::uint64_t> words;
  machine.launch(0, {.blocks = 1, .warps = 1, .shared_bytes = 32 * sizeof(mbarrier)}, [&](sim::context& x) {
    auto* base = reinterpret_cast<mbarrier*>(x.shared());
    x.each_lane([&](int lane) { bars{base}.init(x, lane); });
    for (int i = 0; i < 32; ++i) words.push_back(x.read(base + i).opaque);
  });
  machine.run(0);
  for (int i = 0; i < 32; ++i) {
    const auto state = sim::mbarrier_state::of(words.at(static_cast<std::size_t>(i)));
    EXPECT_EQ(state.expected, i < bars::size ? bars::count(i) : 0) << "barrier " << i;
  }
}

}  // namespace
}  // namespace baton
