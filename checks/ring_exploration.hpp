#pragma once
// What is checked of a ring buffer with each strategy: 1 producer, 1 to 3 readers, 2 or 3 slots, at least two laps of the
// first slot. Tiles of a ring share nothing, so one is enough.
#include <string>
#include <utility>
#include <vector>

#include "checks/faulty_sync.hpp"
#include "checks/protocol_check.hpp"
#include "checks/ring_rounds.hpp"
#include "checks/weakened_context.hpp"

namespace baton::checks {

template <class Strategy, weakening Weakening = weakening::none>
check::result explore_ring(const ring_rounds& rounds, const check::bounds& limits) {
  constexpr ring_shape s = Strategy::shape;
  return check::explore(limits, [&](check::program& p) {
    auto* cells = p.allocate<std::uint32_t>(Strategy::shared_bytes / 4, "cell");
    auto* slots = p.allocate<std::uint32_t>(static_cast<std::size_t>(s.stages), "slot");
    for (int w = 0; w < 1 + s.readers; ++w) {
      p.spawn(0, 0, w, [=, &p, &rounds](check::context& x) {
        weakened<check::context, Weakening> mine{x};
        const ring_buffer<Strategy> ring{reinterpret_cast<std::byte*>(cells),
                                         reinterpret_cast<std::byte*>(slots), 4};
        ring.init(mine);
        mine.sync_block();
        run_ring(mine, ring, rounds, [&] { p.require(false, "a reader sees the item of its turn"); });
      });
    }
  });
}

/// A strategy is given as a template on the shape; `signal_relaxed` is what weakens its signals.
template <template <ring_shape> class Strategy, weakening signal_relaxed>
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
  using two_readers = ring<2, 2>;

  template <int stages, int readers>
  static exploration holds(int items) {
    const std::string of_readers = readers == 1 ? "1 reader" : std::to_string(readers) + " readers";
    return {(stages == 1 ? "1 slot, " : std::to_string(stages) + " slots, ") + of_readers + ", " +
                std::to_string(items) + " items",
            [items](const check::bounds& limits) {
              return explore_ring<ring<stages, readers>>({.items = items}, limits);
            }};
  }

  template <sync_fault Fault>
  static mutant strategy(const char* name, const char* breaks, verdicts noticed_as, ring_rounds rounds = {}) {
    return {name, breaks, std::move(noticed_as), [rounds](const check::bounds& limits) {
              return explore_ring<faulty_sync<two_readers, Fault>>(rounds, limits);
            }};
  }
  static mutant role(const char* name, const char* breaks, verdicts noticed_as, ring_role_fault fault) {
    return {name, breaks, std::move(noticed_as), [fault](const check::bounds& limits) {
              return explore_ring<two_readers>({.items = 4, .fault = fault}, limits);
            }};
  }
  template <weakening Weakening>
  static mutant weak(const char* name) {
    return {name,
            "F1, F2",
            {check::verdict::data_race, check::verdict::broken_promise},
            [](const check::bounds& limits) { return explore_ring<two_readers, Weakening>({}, limits); }};
  }

  static std::vector<mutant> mutants() {
    const verdicts stale{check::verdict::data_race, check::verdict::broken_promise},
        stops{check::verdict::deadlock};
    return {
        strategy<sync_fault::producer_phase_low>("the producer's threshold is one too low", "F2", stale),
        strategy<sync_fault::consumer_phase_low>("a reader's threshold is one too low", "F1", stale),
        strategy<sync_fault::producer_phase_high>("the first fill waits for a read", "Progress", stops),
        strategy<sync_fault::consumer_phase_high>("a read waits for more than its fill", "Progress", stops),
        strategy<sync_fault::producer_increment_low>("the producer's phase grows by one too little a lap",
                                                     "F2", stale),
        strategy<sync_fault::consumer_increment_low>("a reader's phase grows by one too little a lap", "F1",
                                                     stale),
        strategy<sync_fault::producer_signal_lost>("fills of the second slot are not signalled", "Progress",
                                                   stops),
        strategy<sync_fault::one_reader_signal_lost>("reader 0 never signals", "Progress", stops),
        strategy<sync_fault::one_reader_signals_twice>("reader 0 counts for two", "F2", stale, {.items = 6}),
        role("slots are read after their release", "F2", stale, ring_role_fault::reads_after_release),
        role("slots are filled after their release", "F1", stale, ring_role_fault::fills_after_release),
        role("a reader keeps a slot", "Progress", stops, ring_role_fault::forgets_a_release),
        role("a slot is read without waiting for it", "F1", stale, ring_role_fault::skips_acquire),
        weak<weakening::wait_relaxed>("waits are relaxed"),
        weak<signal_relaxed>("signals are relaxed")};
  }
};

}  // namespace baton::checks
