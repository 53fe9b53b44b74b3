#pragma once
// What is checked of a ring buffer with each strategy: 1 producer, 1 to 3 readers, 2 or 3 slots, at least two laps of the
// first slot. Tiles of a ring share nothing, so one is enough.
#include <string>
#include <utility>
#include <vector>

#include "checks/planted_context.hpp"
#include "checks/protocol_check.hpp"
#include "checks/ring_rounds.hpp"

namespace baton::checks {

/// Named, so that bugs can be planted there: the strategy's cells and the slots, in shared memory.
template <class Strategy>
void name_ring(check::program& p, const ring_plan& at, const std::string& of = "") {
  p.name_shared(at.cells.offset, 4, Strategy::shared_bytes / 4, "cell" + of);
  p.name_shared(at.slots.offset, 4, static_cast<std::size_t>(Strategy::total_tiles), "slot" + of);
}

template <class Strategy>
check::result explore_ring(int items, const planted_bug& bug, const check::bounds& limits) {
  constexpr ring_shape s = Strategy::shape;
  shared_plan block;
  const ring_plan plan = take_ring<Strategy>(block, 4);
  return check::explore(limits, [&](check::program& p) {
    p.shared_memory(block.bytes);
    name_ring<Strategy>(p, plan);
    for (int w = 0; w < 1 + s.readers; ++w) {
      p.spawn(0, 0, w, [&, plan](check::context& x) {
        planted<check::context> mine{x, bug, p.names()};
        const ring_buffer<Strategy> ring{mine, plan};
        ring.init(mine);
        mine.sync_block();
        run_ring(mine, ring, {.items = items},
                 [&] { p.require(false, "a reader sees the item of its turn"); });
      });
    }
  });
}

/// What is wrong with thresholds and signals of any strategy. Warp 0 fills, warp 1 is reader 0.
inline constexpr planted_bug ring_refills_early{
    .what = verbs::waits, .how = change::shifted, .where = ring_sites{}.free, .by = 1};
inline constexpr planted_bug ring_reads_early{
    .what = verbs::waits, .how = change::shifted, .where = ring_sites{}.filled, .by = 1};
inline constexpr planted_bug ring_refills_ever_earlier{
    .what = verbs::waits, .how = change::shifted, .where = ring_sites{}.free, .by = 1, .each = per::lap};
inline constexpr planted_bug ring_reader_is_silent{.what = verbs::signals, .how = change::lost, .warp = 1};
inline constexpr planted_bug ring_reader_counts_twice{
    .what = verbs::signals, .how = change::shifted, .warp = 1, .by = 1};
inline constexpr planted_bug ring_is_filled_late{.what = verbs::write, .how = change::late, .cell = "slot"};
inline constexpr planted_bug ring_is_read_late{.what = verbs::read, .how = change::late, .cell = "slot"};

/// A strategy is given as a template on the shape.
template <template <ring_shape> class Strategy>
class ring_checks {
  using verdicts = std::vector<check::verdict>;

 public:
  static protocol_check all(std::string name, std::string title, std::string header) {
    return {
        .name = std::move(name),
        .title = std::move(title),
        .headers = {std::move(header), "src/protocol/sync_strategy.hpp", "src/protocol/ring/ring_buffer.hpp"},
        .explorations = {holds<2, 1>(3), holds<2, 1>(6), holds<3, 1>(7), holds<2, 2>(4), holds<3, 2>(6),
                         holds<2, 3>(3), holds<1, 3>(3)},
        .mutants = mutants()};
  }

 private:
  template <int stages, int readers>
  using ring = Strategy<ring_shape{.stages = stages, .block_rows = 1, .warp_rows = 1, .readers = readers}>;

  template <int stages, int readers>
  static exploration holds(int items) {
    const std::string of_readers = readers == 1 ? "1 reader" : std::to_string(readers) + " readers";
    return {(stages == 1 ? "1 slot, " : std::to_string(stages) + " slots, ") + of_readers + ", " +
                std::to_string(items) + " items",
            [items](const check::bounds& limits) {
              return explore_ring<ring<stages, readers>>(items, {}, limits);
            }};
  }
  static mutant wrong(const char* name, const char* breaks, verdicts noticed_as, const planted_bug& bug,
                      int items = 4) {
    return {name, breaks, std::move(noticed_as), [bug, items](const check::bounds& limits) {
              return explore_ring<ring<2, 2>>(items, bug, limits);
            }};
  }

  static std::vector<mutant> mutants() {
    using enum change;
    constexpr verbs waits = verbs::waits, signals = verbs::signals;
    constexpr site free = ring_sites{}.free, filled = ring_sites{}.filled;
    const verdicts stale{check::verdict::data_race, check::verdict::broken_promise},
        stops{check::verdict::deadlock};
    return {
        wrong("the producer's threshold is one too low", "F2", stale, ring_refills_early),
        wrong("a reader's threshold is one too low", "F1",
              {check::verdict::data_race, check::verdict::broken_promise, check::verdict::garbage_read},
              ring_reads_early),
        wrong("the first fill waits for a read", "Progress", stops,
              {.what = waits, .how = shifted, .where = free, .by = -1}),
        wrong("a read waits for more than its fill", "Progress", stops,
              {.what = waits, .how = shifted, .where = filled, .by = -1}),
        wrong("the producer's phase grows by one too little a lap", "F2", stale, ring_refills_ever_earlier),
        wrong("a reader's phase grows by one too little a lap", "F1", stale,
              {.what = waits, .how = shifted, .where = filled, .by = 1, .each = per::lap}),
        wrong("the second fill is not signalled", "Progress", stops,
              {.what = signals, .how = lost, .warp = 0, .time = 2}),
        wrong("reader 0 never signals", "Progress", stops, ring_reader_is_silent),
        wrong("reader 0 counts for two", "F2", stale, ring_reader_counts_twice, 6),
        wrong("slots are read after their release", "F2", stale, ring_is_read_late),
        wrong("slots are filled after their release", "F1",
              {check::verdict::data_race, check::verdict::broken_promise, check::verdict::garbage_read},
              ring_is_filled_late),
        wrong("a reader keeps a slot", "Progress", stops,
              {.what = signals, .how = lost, .warp = 1, .time = 1}),
        wrong("a slot is read without waiting for it", "F1",
              {check::verdict::data_race, check::verdict::broken_promise, check::verdict::garbage_read},
              {.what = waits, .how = lost, .where = filled, .time = 2}),
        wrong("cells are not cleared", "Start", {check::verdict::garbage_read},
              {.what = verbs::write | verbs::mbarrier_init, .how = lost, .cell = "cell"}),
        wrong("waits are relaxed", "F1, F2", stale, {.what = waits, .how = relaxed}),
        wrong("signals are relaxed", "F1, F2", stale, {.what = signals, .how = relaxed})};
  }
};

}  // namespace baton::checks
