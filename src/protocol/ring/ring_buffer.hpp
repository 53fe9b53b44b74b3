#pragma once
// A ring buffer in shared memory: `stages` slots for each warp tile, a strategy that hands them over, and two ends
// that are types of their own: a producer_view can only fill, a consumer_view can only read.
//
//   producer_view p{sync, tile, sites};            consumer_view c{sync, tile, reader, sites};
//   for each k:                                    for each k:
//     producer_tile slot{x, p};                      consumer_tile slot{x, c};
//     if (!slot) return false;                       if (!slot) return false;
//     ... write the bytes of slot.stage() ...        ... read the bytes of slot.stage() ...
//     end of scope: release                          end of scope: release
//
// acquire() blocks until the slot is free (F2) or filled (F1), release() signals and steps to the next; edges and
// states: protocol/sync_strategy.hpp. A view goes round the ring once: use a view for as long as its tile's slots are
// in use, and no second one for the same end.
#include "base/unwinding.hpp"
#include "exec/shared_plan.hpp"
#include "protocol/sync_strategy.hpp"

namespace baton {

/// Where the two ends of a ring wait.
struct ring_sites {
  site free = "ring.slot_free";
  site filled = "ring.slot_filled";
};

namespace ring_detail {

/// Where an end stands: the slot and the lap.
struct ring_position {
  int stage = 0;
  std::uint32_t lap = 0;

  BATON_FN void step(int stages) {
    if (++stage < stages) return;
    stage = 0;
    ++lap;
  }
  /// What the wait for this slot compares with. Computed each time: a register for it would be taken all the time.
  BATON_FN std::int32_t phase(std::int32_t first, std::int32_t increment) const {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(first) +
                                     lap * static_cast<std::uint32_t>(increment));
  }
};

}  // namespace ring_detail

/// The filling end of one tile's slots; one warp holds it.
template <class Strategy>
class producer_view {
 public:
  BATON_FN producer_view(const Strategy& sync, int tile, const ring_sites& sites = {})
      : sync_{sync}, tile_{tile}, where_{sites.free} {}

  /// Blocks until the slot is free. False: gave up.
  template <exec_context X>
  BATON_FN bool acquire(X& x) {
    const wait_site where{.where = where_, .epoch = at_.lap};
    return sync_.wait_producer_acquire(x, tile_, at_.stage, phase(), where);
  }
  /// The slot of the last acquire is filled.
  template <exec_context X>
  BATON_FN void release(X& x) {
    x.sync_warp();
    x.elect([&] { sync_.signal_producer_release(x, tile_, at_.stage, phase()); });
    at_.step(Strategy::pipeline_stages);
  }
  BATON_FN int stage() const { return at_.stage; }
  BATON_FN int tile() const { return tile_; }

 private:
  /// From 0: an empty ring is free.
  BATON_FN std::int32_t phase() const { return at_.phase(0, Strategy::get_producer_phase_increment()); }

  Strategy sync_;
  int tile_;
  site where_;
  ring_detail::ring_position at_;
};

/// The reading end of one tile's slots for one of its readers; one warp holds it.
template <class Strategy>
class consumer_view {
 public:
  BATON_FN consumer_view(const Strategy& sync, int tile, int reader, const ring_sites& sites = {})
      : sync_{sync}, tile_{tile}, reader_{reader}, where_{sites.filled} {}

  /// Blocks until the slot is filled. False: gave up.
  template <exec_context X>
  BATON_FN bool acquire(X& x) {
    const wait_site where{.where = where_, .epoch = at_.lap};
    return sync_.wait_consumer_acquire(x, tile_, at_.stage, phase(), where);
  }
  /// This reader has done with the slot of the last acquire.
  template <exec_context X>
  BATON_FN void release(X& x) {
    x.sync_warp();
    x.elect([&] { sync_.signal_consumer_release(x, tile_, at_.stage, phase(), reader_); });
    at_.step(Strategy::pipeline_stages);
  }
  BATON_FN int stage() const { return at_.stage; }
  BATON_FN int tile() const { return tile_; }

 private:
  /// From 1: the first fill ends the first wait.
  BATON_FN std::int32_t phase() const { return at_.phase(1, Strategy::get_consumer_phase_increment()); }

  Strategy sync_;
  int tile_, reader_;
  site where_;
  ring_detail::ring_position at_;
};

/// A slot held for the length of a scope: acquired at its beginning, released at its end unless the wait gave up.
template <class X, class View>
class ring_tile {
 public:
  BATON_FN ring_tile(X& x, View& view) : x_{x}, view_{view}, held_{view.acquire(x)} {}
  /// May throw: a machine on the CPU abandons a warp where it stands, and that may be in a release.
  BATON_FN ~ring_tile() noexcept(false) {
    if (held_ && !unwinding()) view_.release(x_);
  }
  ring_tile(const ring_tile&) = delete;
  ring_tile& operator=(const ring_tile&) = delete;

  BATON_FN explicit operator bool() const { return held_; }
  BATON_FN int stage() const { return view_.stage(); }

 private:
  X& x_;
  View& view_;
  bool held_;
};
template <class X, class Strategy>
using producer_tile = ring_tile<X, producer_view<Strategy>>;
template <class X, class Strategy>
using consumer_tile = ring_tile<X, consumer_view<Strategy>>;

/// Where a ring lies in the shared memory of a block.
struct ring_plan {
  shared_array<std::byte> cells{}, slots{};
  int slot_bytes = 0;
};
template <class Strategy>
constexpr ring_plan take_ring(shared_plan& from, int slot_bytes) {
  const auto cells = from.take<std::byte>(static_cast<int>(Strategy::shared_bytes), 16);
  return {cells, from.take<std::byte>(Strategy::shape.total_tiles() * slot_bytes, 16), slot_bytes};
}

/// The memory of a ring: the strategy's cells, and `slot_bytes` for each tile and stage; tiles of a stage stand
/// together, in order.
template <class Strategy>
class ring_buffer {
 public:
  static constexpr ring_shape shape = Strategy::shape;

  BATON_FN ring_buffer(std::byte* cells, std::byte* slots, int slot_bytes, const ring_sites& sites = {})
      : sync_{cells}, slots_{slots}, slot_bytes_{slot_bytes}, sites_{sites} {}
  template <exec_context X>
  BATON_FN ring_buffer(X& x, const ring_plan& at, const ring_sites& sites = {})
      : ring_buffer{at.cells(x), at.slots(x), at.slot_bytes, sites} {}

  /// All warps of the block; sync_block before the first use.
  template <exec_context X>
  BATON_FN void init(X& x) const {
    sync_.init(x);
  }
  BATON_FN producer_view<Strategy> producer(int tile) const { return {sync_, tile, sites_}; }
  BATON_FN consumer_view<Strategy> consumer(int tile, int reader) const {
    return {sync_, tile, reader, sites_};
  }
  BATON_FN std::byte* slot(int tile, int stage) const {
    return slots_ + (stage * shape.block_warps() + tile) * slot_bytes_;
  }

 private:
  Strategy sync_;
  std::byte* slots_;
  int slot_bytes_;
  ring_sites sites_;
};

}  // namespace baton
