// Ring buffers on real threads: ThreadSanitizer is silent about the strategies and loud about the mutants.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>

#include "base/math.hpp"
#include "checks/planted_context.hpp"
#include "checks/ring_rounds.hpp"
#include "protocol/ring/per_reader_flags.hpp"
#include "protocol/ring/single_counter.hpp"
#include "protocol/ring/split_counter.hpp"
#include "sim/threads.hpp"

namespace baton {
namespace {

using checks::change, checks::planted, checks::planted_bug, checks::verbs;

constexpr int found_a_race = 66;  // ThreadSanitizer's exit status

constexpr ring_shape shape{.stages = 3, .block_rows = 2, .warp_rows = 1, .readers = 2};
constexpr int warps = shape.block_warps() * (1 + shape.readers);

/// How many words were wrong, and warps that did not finish.
template <class Strategy>
int run_ring_of(const checks::ring_rounds& rounds, unsigned seed, const planted_bug& bug = {}) {
  shared_plan block;
  const ring_plan plan = take_ring<Strategy>(block, 4 * rounds.words);
  std::atomic<int> wrong{0}, unfinished{warps};
  threads::team team{.warps = warps, .seed = seed};
  team.shared_bytes = block.bytes;
  threads::run(team, [&](threads::context& x) {
    const auto name_of = [&](const void* at) { return at >= plan.slots(x) ? "slot" : "cell"; };
    planted<threads::context> mine{x, bug, name_of};
    const ring_buffer<Strategy> ring{mine, plan};
    ring.init(mine);
    mine.sync_block();
    if (checks::run_ring(mine, ring, rounds, [&] { wrong.fetch_add(1, std::memory_order_relaxed); }))
      unfinished.fetch_sub(1, std::memory_order_relaxed);
  });
  return wrong + unfinished;
}

template <class Strategy>
class ring_threads : public testing::Test {};
using strategies =
    testing::Types<single_counter_sync<shape>, split_counter_sync<shape>, per_reader_flags<shape>>;
TYPED_TEST_SUITE(ring_threads, strategies);

TYPED_TEST(ring_threads, hundreds_of_laps_are_clean) {
  EXPECT_EQ(run_ring_of<TypeParam>({.items = 1000, .words = 8}, 1), 0);
  EXPECT_EQ(run_ring_of<TypeParam>({.items = 300, .words = 1}, 2), 0);
}

template <class Strategy>
[[noreturn]] void run_mutant(const planted_bug& bug) {
  run_ring_of<Strategy>({.items = 200, .words = 4}, 1, bug);
  std::exit(EXIT_SUCCESS);  // ThreadSanitizer makes this its own status if it has reported anything
}

template <class Strategy>
void expect_reported(const planted_bug& bug) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(run_mutant<Strategy>(bug), testing::ExitedWithCode(found_a_race), "ThreadSanitizer: data race");
}

TYPED_TEST(ring_threads, mutant_relaxed_waits_are_reported) {
  expect_reported<TypeParam>({.what = verbs::waits, .how = change::relaxed});
}

TYPED_TEST(ring_threads, mutant_relaxed_signals_are_reported) {
  expect_reported<TypeParam>({.what = verbs::signals, .how = change::relaxed});
}

TYPED_TEST(ring_threads, mutant_reading_after_the_release_is_reported) {
  expect_reported<TypeParam>({.what = verbs::read, .how = change::late, .cell = "slot"});
}

}  // namespace
}  // namespace baton
