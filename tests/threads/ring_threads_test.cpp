// Ring buffers on real threads: ThreadSanitizer is silent about the strategies and loud about the mutants.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>

#include "base/math.hpp"
#include "checks/ring_rounds.hpp"
#include "checks/weakened_context.hpp"
#include "protocol/ring/per_reader_flags.hpp"
#include "protocol/ring/single_counter.hpp"
#include "protocol/ring/split_counter.hpp"
#include "sim/threads.hpp"

namespace baton {
namespace {

constexpr int found_a_race = 66;  // ThreadSanitizer's exit status

constexpr ring_shape shape{.stages = 3, .block_rows = 2, .warp_rows = 1, .readers = 2};
constexpr int warps = shape.block_warps() * (1 + shape.readers);

/// How many words were wrong, and warps that did not finish.
template <class Strategy, weakening Weakening = weakening::none>
int run_ring_of(const checks::ring_rounds& rounds, unsigned seed) {
  shared_plan block;
  const ring_plan plan = take_ring<Strategy>(block, 4 * rounds.words);
  std::atomic<int> wrong{0}, unfinished{warps};
  threads::team team{.warps = warps, .seed = seed};
  team.shared_bytes = block.bytes;
  threads::run(team, [&](threads::context& x) {
    weakened<threads::context, Weakening> mine{x};
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

template <class Strategy, weakening Weakening>
[[noreturn]] void run_mutant(const checks::ring_rounds& rounds) {
  run_ring_of<Strategy, Weakening>(rounds, 1);
  std::exit(EXIT_SUCCESS);  // ThreadSanitizer makes this its own status if it has reported anything
}

template <class Strategy, weakening Weakening>
void expect_reported(const checks::ring_rounds& rounds) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT((run_mutant<Strategy, Weakening>(rounds)), testing::ExitedWithCode(found_a_race),
              "ThreadSanitizer: data race");
}

TYPED_TEST(ring_threads, mutant_relaxed_waits_are_reported) {
  expect_reported<TypeParam, weakening::wait_relaxed>({.items = 200, .words = 4});
}

TYPED_TEST(ring_threads, mutant_relaxed_signals_are_reported) {
  if constexpr (std::is_same_v<TypeParam, per_reader_flags<shape>>)
    expect_reported<TypeParam, weakening::release_store_relaxed>({.items = 200, .words = 4});
  else
    expect_reported<TypeParam, weakening::add_relaxed>({.items = 200, .words = 4});
}

TYPED_TEST(ring_threads, mutant_reading_after_the_release_is_reported) {
  expect_reported<TypeParam, weakening::none>({200, 4, checks::ring_role_fault::reads_after_release});
}

}  // namespace
}  // namespace baton
