// Sync strategies and ring buffers: the documented numbers, and every strategy under seeded schedules with delayed
// stores on the CPU machine.
#include <gtest/gtest.h>

#include <vector>

#include "base/math.hpp"
#include "baton/error.hpp"
#include "checks/ring_exploration.hpp"
#include "protocol/ring/mbarrier_sync.hpp"
#include "protocol/ring/per_reader_flags.hpp"
#include "protocol/ring/single_counter.hpp"
#include "protocol/ring/split_counter.hpp"
#include "sim/context.hpp"

namespace baton {
namespace {

// The main case of the documents: 64 rows in warp tiles of 32, two stages, two readers.
constexpr ring_shape documented{.stages = 2, .block_rows = 64, .warp_rows = 32, .readers = 2};
using single = single_counter_sync<documented>;
using split = split_counter_sync<documented>;
using flags = per_reader_flags<documented>;
using suspended = mbarrier_sync<documented>;

static_assert(split::block_warps == 2 && split::total_tiles == 4 && split::writes_per_warp_block == 1);
static_assert(single::get_producer_phase_increment() == 3 && single::get_consumer_phase_increment() == 3,
              "W + R");
static_assert(split::get_producer_phase_increment() == 2, "R: waits for all readers");
static_assert(split::get_consumer_phase_increment() == 1, "W: waits for one producer");
static_assert(single::shared_bytes == 4 * 4 && split::shared_bytes == 8 * 4, "one and two counters a tile");
static_assert(single::get_staged_idx(1, 0) == 2 && split::get_staged_idx(1, 1) == 3,
              "the stage is the faster index");
static_assert(sync_strategy<single, sim::context> && sync_strategy<split, sim::context> &&
              sync_strategy<flags, sim::context> && sync_strategy<suspended, sim::context>);
static_assert(ring_detail::reached(5, 5) && ring_detail::reached(6, 5) && !ring_detail::reached(4, 5));
static_assert(ring_detail::reached(1, -1) && !ring_detail::reached(0xffffffffu, 2), "counters may wrap");

TEST(ring_shape, what_cannot_be_is_refused_with_its_reason) {
  EXPECT_EQ(why_not(documented), nullptr);
  EXPECT_STREQ(why_not(ring_shape{.stages = 0}), "stages: a ring needs a slot");
  EXPECT_NE(why_not(ring_shape{.stages = 1, .block_rows = 48, .warp_rows = 32}), nullptr);
  EXPECT_NE(why_not(ring_shape{.readers = 0}), nullptr);
  EXPECT_NE(why_not(ring_shape{.readers = 33}), nullptr);
}

/// Thresholds in closed form: use k of a slot waits for these.
template <class Strategy>
std::vector<std::int32_t> phases(bool producer, int laps) {
  std::vector<std::int32_t> seen;
  ring_detail::ring_position at;
  const auto increment =
      producer ? Strategy::get_producer_phase_increment() : Strategy::get_consumer_phase_increment();
  for (int i = 0; i < laps * Strategy::pipeline_stages; ++i) {
    if (at.stage == 0) seen.push_back(at.phase(producer ? 0 : 1, increment));
    at.step(Strategy::pipeline_stages);
  }
  return seen;
}

TEST(ring_strategy, thresholds_are_the_documented_ones) {
  using v = std::vector<std::int32_t>;
  EXPECT_EQ(phases<single>(true, 4), (v{0, 3, 6, 9})) << "k (W + R)";
  EXPECT_EQ(phases<single>(false, 4), (v{1, 4, 7, 10})) << "1 + k (W + R)";
  EXPECT_EQ(phases<split>(true, 4), (v{0, 2, 4, 6})) << "k R";
  EXPECT_EQ(phases<split>(false, 4), (v{1, 2, 3, 4})) << "1 + k W";
}

TEST(ring_buffer, slots_of_a_stage_stand_together) {
  alignas(16) std::byte memory[1024];
  const ring_buffer<single> ring{memory, memory + 64, 100};
  EXPECT_EQ(ring.slot(0, 0) - memory, 64);
  EXPECT_EQ(ring.slot(1, 0) - memory, 164);
  EXPECT_EQ(ring.slot(0, 1) - memory, 264);
}

using checks::planted_bug;

struct outcome {
  int wrong_words = 0;
  int gave_up = 0;
  int faults = 0;  // an mbarrier was misused
  bool fine() const { return wrong_words + gave_up + faults == 0; }
};

template <class Strategy>
outcome run(sim::schedule order, std::uint64_t seed, const checks::ring_rounds& rounds,
            const planted_bug& bug = {}) {
  constexpr ring_shape s = Strategy::shape;
  shared_plan block;
  const ring_plan plan = take_ring<Strategy>(block, 4 * rounds.words);
  sim::machine m{
      1, {.order = order, .seed = seed, .delay_stores = order != sim::schedule::round_robin, .faults = {}}};
  outcome o;
  sim::grid g{.blocks = 1, .warps = s.block_warps() * (1 + s.readers)};
  g.shared_bytes = block.bytes;
  g.limits.deadline_ns = 1000;
  m.launch(0, g, [&](sim::context& base) {
    const auto name_of = [&](const void* at) { return at >= plan.slots(base) ? "slot" : "cell"; };
    checks::planted<sim::context> x{base, bug, name_of};
    const ring_buffer<Strategy> ring{x, plan};
    ring.init(x);
    x.sync_block();
    if (!checks::run_ring(x, ring, rounds, [&] { ++o.wrong_words; })) ++o.gave_up;
    o.wrong_words += x.has_read_too_late() ? 1 : 0;
  });
  try {
    m.run(0);
  } catch (const error&) {
    ++o.faults;
  }
  return o;
}

template <class Strategy>
int bad_schedules(const checks::ring_rounds& rounds, const planted_bug& bug = {}, int seeds = 100) {
  int bad = 0;
  for (const auto order : {sim::schedule::random, sim::schedule::priority})
    for (int seed = 1; seed <= seeds; ++seed)
      bad += run<Strategy>(order, static_cast<std::uint64_t>(seed), rounds, bug).fine() ? 0 : 1;
  return bad;
}

template <template <ring_shape> class Strategy>
struct strategy {
  template <ring_shape S>
  using of = Strategy<S>;
};

template <class T>
class ring_strategies : public testing::Test {};
using all_strategies = testing::Types<strategy<single_counter_sync>, strategy<split_counter_sync>,
                                      strategy<per_reader_flags>, strategy<mbarrier_sync>>;
TYPED_TEST_SUITE(ring_strategies, all_strategies);

constexpr ring_shape shape_of(int stages, int tiles, int readers) {
  return {.stages = stages, .block_rows = tiles, .warp_rows = 1, .readers = readers};
}

TYPED_TEST(ring_strategies, hand_every_item_over_whole_in_every_schedule) {
  const checks::ring_rounds rounds{.items = 9, .words = 8};
  EXPECT_EQ((bad_schedules<typename TypeParam::template of<shape_of(1, 1, 1)>>(rounds)), 0);
  EXPECT_EQ((bad_schedules<typename TypeParam::template of<shape_of(2, 2, 3)>>(rounds)), 0);
  EXPECT_EQ((bad_schedules<typename TypeParam::template of<shape_of(3, 1, 8)>>(rounds)), 0);
  EXPECT_TRUE(
      (run<typename TypeParam::template of<shape_of(4, 3, 2)>>(sim::schedule::round_robin, 1, {50, 32}))
          .fine());
}

TYPED_TEST(ring_strategies, mutants_show_in_some_schedule) {
  using base = typename TypeParam::template of<shape_of(2, 1, 2)>;
  const checks::ring_rounds rounds{.items = 6, .words = 4};
  int number = 0;
  for (const planted_bug& bug :
       {checks::ring_refills_early, checks::ring_reads_early, checks::ring_refills_ever_earlier,
        checks::ring_reader_is_silent, checks::ring_reader_counts_twice, checks::ring_is_read_late,
        checks::ring_is_filled_late})
    EXPECT_GT(bad_schedules<base>(rounds, bug), 0) << "bug " << number++;
}

TYPED_TEST(ring_strategies, a_reader_that_stops_leaves_a_record_of_who_waits_for_what) {
  using base = typename TypeParam::template of<shape_of(2, 1, 1)>;
  const outcome o = run<base>(sim::schedule::round_robin, 1, {6, 1, true});
  EXPECT_EQ(o.gave_up, 1) << "the producer";
  EXPECT_EQ(o.wrong_words, 0);
}

}  // namespace
}  // namespace baton
