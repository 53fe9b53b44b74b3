#include "sim/context.hpp"

#include <algorithm>

#include "sim/machine_state.hpp"

namespace baton::sim {

context::context(machine::state& m, warp_state& me, const grid& shape)
    : machine_{m},
      me_{me},
      shape_{shape},
      rank_{me.rank},
      block_{me.block},
      warp_{me.warp},
      shared_{me.home->shared.data()},
      delays_{m.opts.delay_stores} {}

void context::sync_block() {
  require_whole("sync_block");
  me_.stores.move_to(me_.home->stores);
  me_.shared_stores.to_memory();
  if (++me_.home->arrived == me_.home->live) {
    machine_.open_barrier(*me_.home);
    return;
  }
  me_.why = blocked::barrier;
  machine_.yield(me_);
}

void context::scheduling_point() {
  if (machine_.dies_now(rank_)) machine_.yield(me_);  // never resumed
  if (machine_.opts.order == schedule::round_robin) return;
  if (delays_ && machine_.random() % 16 == 0) {
    me_.stores.to_memory();
    me_.shared_stores.to_memory();
    changed();
  }
  if (machine_.opts.order == schedule::priority) {
    if (machine_.change_points.contains(machine_.total_steps)) me_.priority = --machine_.lowest_priority;
    machine_.yield(me_);
  } else if (machine_.random() % 2 == 0) {
    machine_.yield(me_);
  }
}

/// Somebody else may act on a signal before this warp does another thing.
void context::after_signal() {
  if (machine_.opts.order == schedule::random && machine_.random() % 2 == 0) machine_.yield(me_);
}

/// Of this block, or of another one of its cluster.
bool context::is_shared(const void* at) const {
  const auto* byte = static_cast<const std::byte*>(at);
  const auto lies_in = [&](const std::byte* shared) {
    return byte >= shared && byte < shared + shape_.shared_bytes;
  };
  if (shape_.cluster == 1) return lies_in(shared_);
  return std::ranges::any_of(me_.home->cluster->blocks,
                             [&](const block_state* block) { return lies_in(block->shared.data()); });
}

void context::reveal(const void* at, std::size_t size) {
  if (is_shared(at)) {
    if (me_.shared_stores.reveal(at, size)) changed();
    return;
  }
  if (me_.stores.reveal(at, size)) changed();
}

void context::delayed_write(void* at, const void* value, std::size_t size) {
  (is_shared(at) ? me_.shared_stores : me_.stores).add(at, value, size);
}

void context::release(scope s) {
  if (!delays_ || machine_.fault_of(rank_, fault::kind::ignores_releases) != nullptr) return;
  if (s == scope::system && machine_.fault_of(rank_, fault::kind::releases_to_device_only) != nullptr)
    s = scope::device;
  store_list& of_rank = machine_.ranks[static_cast<std::size_t>(rank_)].stores;
  me_.stores.move_to(me_.home->stores);
  me_.shared_stores.to_memory();
  if (s == scope::block) return;
  me_.home->stores.move_to(of_rank);
  if (s == scope::system) of_rank.to_memory();
  changed();
}

bool context::somebody_waits() const {
  return me_.home->waiting > 0;
}

void context::changed() {
  ++machine_.version;
}

std::uint64_t context::flipped(const void* at, std::uint64_t value) {
  for (std::size_t i = 0; i < machine_.opts.faults.size(); ++i) {
    const fault& f = machine_.opts.faults[i];
    if (f.what != fault::kind::flips_bit || f.rank != rank_ || machine_.bit_flipped[i]) continue;
    if (at < f.word_begin || at >= f.word_end) continue;
    machine_.bit_flipped[i] = true;
    value ^= f.mask;
  }
  return value;
}

std::uint64_t context::now_ns() const {
  return machine_.now_ns();
}

bool context::has_given_up() const {
  std::uint32_t* abort = shape_.limits.abort;
  return abort != nullptr && std::atomic_ref<std::uint32_t>{*abort}.load() != 0;
}

bool context::keep_waiting(const wait_site& where, std::uint64_t began, int lane, std::uint64_t seen) {
  const wait_limits& limits = shape_.limits;
  if (has_given_up()) return false;
  const std::uint64_t wake_at = limits.deadline_ns == 0 ? 0 : began + limits.deadline_ns * where.patience;
  const std::uint64_t now = now_ns();
  if (wake_at != 0 && now >= wake_at) {
    report(where, lane, seen, now - began);
    return false;
  }
  me_.at = where;
  me_.wake_at = wake_at;
  if (where.peer >= 0 && limits.log != nullptr) {
    stuck_record& mine = limits.log->of_block(block_).of_warp(warp_);
    mine = record_of(where, lane, seen, now - began);
    mine.complete = 1;
  }
  sleep();
  return true;
}

bool context::waited(const wait_site& where, std::uint64_t began, int last) {
  wait_log* const log = shape_.limits.log;
  if (last < 0 || where.peer < 0 || log == nullptr) return true;
  wait_log::counter& count = log->of_block(block_).of_peer(peer_of(where, last));
  count.ns += now_ns() - began;
  ++count.waits;
  log->of_block(block_).of_warp(warp_).complete = 0;
  return true;
}

stuck_record context::record_of(const wait_site& where, int lane, std::uint64_t seen,
                                std::uint64_t waited_ns) const {
  return {.claimed = 1,
          .complete = 0,
          .rank = static_cast<std::int16_t>(rank_),
          .peer = static_cast<std::int16_t>(peer_of(where, lane)),
          .block = static_cast<std::uint32_t>(block_),
          .warp = static_cast<std::uint16_t>(warp_),
          .lane = static_cast<std::uint8_t>(lane),
          .slot = static_cast<std::int8_t>(shape_.limits.slot),
          .epoch = where.epoch,
          .where = where.where,
          .expected = where.expected,
          .seen = seen,
          .waited_ns = waited_ns};
}

/// The first report of a rank is the one that counts; all of them make the rank give up.
void context::report(const wait_site& where, int lane, std::uint64_t seen, std::uint64_t waited_ns) {
  const wait_limits& limits = shape_.limits;
  if (limits.record != nullptr && std::atomic_ref<std::uint32_t>{limits.record->claimed}.exchange(1) == 0) {
    *limits.record = record_of(where, lane, seen, waited_ns);
    std::atomic_ref<std::uint32_t>{limits.record->complete}.store(1);
  }
  if (limits.abort != nullptr) std::atomic_ref<std::uint32_t>{*limits.abort}.store(1);
  changed();
}

/// Until memory changes or time passes.
void context::sleep() {
  me_.why = blocked::wait;
  me_.seen_version = machine_.version;
  ++me_.home->waiting;
  machine_.yield(me_);
  --me_.home->waiting;
}

}  // namespace baton::sim
