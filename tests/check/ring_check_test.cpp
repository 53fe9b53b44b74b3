// Ring buffers (protocol/sync_strategy.hpp, protocol/ring) in every schedule, and mutants, each of which must be found.
//
// Bounds: 1 producer; 1 to 3 readers; 2 or 3 slots; two laps at least of the first slot. Tiles of a ring share nothing,
// so one is enough.
#include <gtest/gtest.h>

#include <iostream>
#include <set>

#include "protocol/ring/mbarrier_sync.hpp"
#include "protocol/ring/per_reader_flags.hpp"
#include "protocol/ring/single_counter.hpp"
#include "protocol/ring/split_counter.hpp"
#include "sim/check.hpp"
#include "tests/check/weakened_context.hpp"
#include "tests/support/faulty_sync.hpp"
#include "tests/support/ring_rounds.hpp"

namespace baton {
namespace {

using check::verdict;
using test::ring_role_fault;
using test::ring_rounds;
using test::sync_fault;

constexpr ring_shape shape_of(int stages, int readers) {
  return {.stages = stages, .block_rows = 1, .warp_rows = 1, .readers = readers};
}

template <class Strategy, weakening Weakening = weakening::none>
check::result explore_ring(const ring_rounds& rounds, check::bounds limits = {}) {
  constexpr ring_shape s = Strategy::shape;
  return check::explore(limits, [&](check::program& p) {
    auto* cells = p.allocate<std::uint32_t>(Strategy::shared_bytes / 4, "counter");
    auto* slots = p.allocate<std::uint32_t>(static_cast<std::size_t>(s.stages), "slot");
    for (int w = 0; w < 1 + s.readers; ++w) {
      p.spawn(0, 0, w, [=, &p, &rounds](check::context& x) {
        weakened<check::context, Weakening> mine{x};
        const ring_buffer<Strategy> ring{reinterpret_cast<std::byte*>(cells),
                                         reinterpret_cast<std::byte*>(slots), 4};
        ring.init(mine);
        mine.sync_block();
        test::run_ring(mine, ring, rounds, [&] { p.require(false, "a reader sees the item of its turn"); });
      });
    }
  });
}

template <class Strategy>
void expect_holds(const ring_rounds& rounds, const char* what) {
  const check::result r = explore_ring<Strategy>(rounds);
  EXPECT_TRUE(r.holds()) << r.summary() << "\n" << r.text << "\n" << r.counterexample;
  std::cout << what << ": " << Strategy::shape.stages << " slots, " << Strategy::shape.readers << " readers, "
            << rounds.items << " items: " << r.summary() << "\n";
}

void expect_killed(const check::result& r) {
  EXPECT_TRUE((std::set{verdict::data_race, verdict::broken_promise, verdict::deadlock}.contains(r.found)))
      << r.summary() << "\n"
      << r.text << "\n"
      << r.counterexample;
}

template <template <ring_shape> class Strategy>
struct strategy {
  template <ring_shape S>
  using of = Strategy<S>;
};

template <class T>
class ring_check : public testing::Test {
 protected:
  template <int stages, int readers>
  using ring = typename T::template of<shape_of(stages, readers)>;
  template <sync_fault Fault, int stages = 2, int readers = 2>
  using faulty = test::faulty_sync<ring<stages, readers>, Fault>;
};
using counting =
    testing::Types<strategy<single_counter_sync>, strategy<split_counter_sync>, strategy<per_reader_flags>>;
TYPED_TEST_SUITE(ring_check, counting);

TYPED_TEST(ring_check, every_item_is_read_whole_and_nobody_hangs) {
  const char* what = testing::UnitTest::GetInstance()->current_test_info()->type_param();
  expect_holds<typename TestFixture::template ring<2, 1>>({.items = 6}, what);
  expect_holds<typename TestFixture::template ring<3, 1>>({.items = 7}, what);
  expect_holds<typename TestFixture::template ring<2, 2>>({.items = 4}, what);
  expect_holds<typename TestFixture::template ring<3, 2>>({.items = 6}, what);
  expect_holds<typename TestFixture::template ring<2, 3>>({.items = 3}, what);
}

TYPED_TEST(ring_check, mutant_thresholds_are_killed) {
  expect_killed(explore_ring<typename TestFixture::template faulty<sync_fault::producer_phase_low>>({}));
  expect_killed(explore_ring<typename TestFixture::template faulty<sync_fault::consumer_phase_low>>({}));
  expect_killed(explore_ring<typename TestFixture::template faulty<sync_fault::producer_phase_high>>({}));
  expect_killed(explore_ring<typename TestFixture::template faulty<sync_fault::consumer_phase_high>>({}));
}

TYPED_TEST(ring_check, mutant_increments_are_killed) {
  expect_killed(explore_ring<typename TestFixture::template faulty<sync_fault::producer_increment_low>>({}));
  expect_killed(explore_ring<typename TestFixture::template faulty<sync_fault::consumer_increment_low>>({}));
}

TYPED_TEST(ring_check, mutant_signals_are_killed) {
  expect_killed(explore_ring<typename TestFixture::template faulty<sync_fault::producer_signal_lost>>({}));
  expect_killed(explore_ring<typename TestFixture::template faulty<sync_fault::one_reader_signal_lost>>({}));
  expect_killed(explore_ring<typename TestFixture::template faulty<sync_fault::one_reader_signals_twice>>(
      {.items = 6}));
}

TYPED_TEST(ring_check, mutant_roles_are_killed) {
  using two_readers = typename TestFixture::template ring<2, 2>;
  for (const auto f : {ring_role_fault::reads_after_release, ring_role_fault::fills_after_release,
                       ring_role_fault::forgets_a_release, ring_role_fault::skips_acquire})
    expect_killed(explore_ring<two_readers>({.items = 4, .fault = f}));
}

TYPED_TEST(ring_check, mutant_relaxed_waits_are_killed) {
  expect_killed(explore_ring<typename TestFixture::template ring<2, 2>, weakening::wait_relaxed>({}));
}

TYPED_TEST(ring_check, mutant_relaxed_signals_are_killed) {
  using two_readers = typename TestFixture::template ring<2, 2>;
  if constexpr (std::is_same_v<TypeParam, strategy<per_reader_flags>>)
    expect_killed(explore_ring<two_readers, weakening::release_store_relaxed>({}));
  else
    expect_killed(explore_ring<two_readers, weakening::add_relaxed>({}));
}

}  // namespace
}  // namespace baton
