// The asynchronous verbs of the machine: mbarriers, the copy engine, clusters.
#include <fmt/format.h>

#include <algorithm>

#include "baton/error.hpp"
#include "sim/bulk_copy_rules.hpp"
#include "sim/context.hpp"
#include "sim/machine_state.hpp"
#include "sim/mbarrier_model.hpp"

namespace baton::sim {

template <class Transition>
void context::change(mbarrier* b, Transition transition) {
  reveal(b, sizeof *b);
  const mbarrier_state now = transition(mbarrier_state::of(b->opaque));
  b->opaque = now.word();
  changed();
  if (now.fault == mbarrier_fault::none) return after_signal();
  throw error{fmt::format("rank {} block {} warp {}: mbarrier at shared + {}: {}", rank_, block_, warp_,
                          reinterpret_cast<std::byte*>(b) - shared_, name(now.fault))};
}

void context::mbarrier_init(mbarrier* b, int arrivals) {
  if (arrivals < 1 || arrivals > mbarrier_state::most)
    throw error{
        fmt::format("mbarrier_init: arrivals is {}; expected 1 to {}", arrivals, mbarrier_state::most)};
  write(b, mbarrier{initialised(arrivals).word()});
}

/// Who gave up arrives nowhere: what he waited for has not come, so that it may be one arrival too many.
void context::arrive(scope reach, mbarrier* b, int n) {
  scheduling_point();
  if (gave_up()) return;
  release(shape_.cluster > 1 ? reach : scope::block);
  change(b, [n](const mbarrier_state& s) { return sim::arrive(s, n); });
}

void context::arrive_expect(scope reach, mbarrier* b, int bytes) {
  scheduling_point();
  if (gave_up()) return;
  release(shape_.cluster > 1 ? reach : scope::block);
  change(b, [bytes](const mbarrier_state& s) { return sim::arrive_expect(s, bytes); });
}

/// A block of this one's cluster that others still reach.
block_state& context::block_of_cluster(const char* verb, int block) const {
  if (block < 0 || block >= shape_.cluster)
    throw error{fmt::format("{}: block {} of a cluster of {}", verb, block, shape_.cluster)};
  block_state& target = *me_.home->cluster->blocks[static_cast<std::size_t>(block)];
  if (target.live == 0 && !gave_up())
    throw error{
        fmt::format("rank {} block {} warp {}: {}: block {} of its cluster has ended: synchronise the "
                    "cluster before leaving",
                    rank_, block_, warp_, verb, block)};
  return target;
}

std::byte* context::place_in_block(std::byte* at, int block) const {
  return block_of_cluster("in_block", block).shared.data() + (at - shared_);
}

void context::arrive_at(scope reach, mbarrier* b, int block, int n) {
  scheduling_point();
  if (gave_up()) return;
  block_state& target = block_of_cluster("mbarrier_arrive_at", block);
  release(reach);
  auto* there = target.shared.data() + (reinterpret_cast<std::byte*>(b) - shared_);
  change(reinterpret_cast<mbarrier*>(there), [n](const mbarrier_state& s) { return sim::arrive(s, n); });
}

void context::fence_mbarrier_init() {
  if (delays_) me_.shared_stores.to_memory();
}

/// What this warp sees of shared memory is what the engine sees from here on.
void context::fence_proxy_async() {
  if (!delays_) return;
  me_.stores.move_to(me_.home->stores);
  me_.home->stores.move_to(machine_.ranks[static_cast<std::size_t>(rank_)].stores);
  me_.shared_stores.to_memory();  // a later fence by another warp must not take them from the view again
  std::vector<std::byte>& view = me_.home->engine_view;
  if (!view.empty()) std::memcpy(view.data(), me_.home->shared.data(), view.size());
}

void context::require_copy(const void* shared, const void* global, int bytes) const {
  require_bulk_copy({shared_, static_cast<std::ptrdiff_t>(shape_.shared_bytes)}, shared, global, bytes);
}

void context::bulk_load(void* to, const void* from, int bytes, mbarrier* b) {
  require_copy(to, from, bytes);
  copy_piece whole;
  whole.to = static_cast<std::byte*>(to);
  whole.from = static_cast<const std::byte*>(from);
  whole.bytes = static_cast<std::size_t>(bytes);
  whole.counts_on = b;
  whole.owner = &me_;
  machine_.issue(whole);
  scheduling_point();
}

void context::bulk_store(void* to, const void* from, int bytes) {
  require_copy(from, to, bytes);
  copy_piece whole;
  whole.to = static_cast<std::byte*>(to);
  whole.from = static_cast<const std::byte*>(from);
  whole.bytes = static_cast<std::size_t>(bytes);
  whole.owner = &me_;
  whole.group = me_.open_group;
  machine_.issue(whole);
  scheduling_point();
}

void context::bulk_commit() {
  ++me_.open_group;
}

void context::wait_stores(int newest, bool only_read) {
  const auto pending = [&](const copy_piece& piece) {
    return piece.owner == &me_ && piece.is_store() &&
           piece.group + static_cast<std::uint64_t>(newest) < me_.open_group && !(only_read && piece.is_read);
  };
  while (machine_.copies.any(pending)) {
    me_.wake_at = 0;
    sleep();
  }
}

bool context::wait_phase(mbarrier* b, parity p, wait_site where) {
  scheduling_point();
  where.expected = static_cast<std::uint64_t>(p);
  const auto offset = static_cast<std::uint64_t>(reinterpret_cast<std::byte*>(b) - shared_);
  const std::uint64_t began = now_ns();
  for (;;) {
    reveal(b, sizeof *b);
    const auto s = mbarrier_state::of(b->opaque);
    if (s.expected == 0)
      change(b, [](const mbarrier_state& now) { return sim::arrive(now); });  // throws, saying so
    if (s.completed(p)) return true;
    if (!keep_waiting(where, began, 0, offset)) return false;
  }
}

bool context::phase_is_over(mbarrier* b, parity p) {
  scheduling_point();
  reveal(b, sizeof *b);
  return !gave_up() && mbarrier_state::of(b->opaque).completed(p);
}

/// The first `count` of those that are on their way.
void context::copy_words(std::size_t count) {
  const auto end = copies_.begin() + static_cast<std::ptrdiff_t>(count);
  for (auto copy = copies_.begin(); copy != end; ++copy)
    write(copy->to, copy->from == nullptr ? 0u : read(copy->from));
  copies_.erase(copies_.begin(), end);
}

void context::await_all_copies_but(std::size_t newest) {
  if (committed_.size() <= newest) return;
  const auto last = committed_.end() - static_cast<std::ptrdiff_t>(newest) - 1;
  const std::size_t done = *last;
  copy_words(done);
  committed_.erase(committed_.begin(), last + 1);
  for (std::size_t& end : committed_) end -= done;
}

void context::mbarrier_arrive_after_copies(mbarrier* b) {
  copy_words(copies_.size());
  committed_.clear();
  arrive(scope::block, b, 1);
}

void context::sync_cluster() {
  require_whole("sync_cluster");
  release(scope::cluster);
  meet_cluster();
}

void context::meet_cluster() {
  require_whole("meet_cluster");
  cluster_state& cluster = *me_.home->cluster;
  if (++cluster.arrived == cluster.live) {
    machine_.open_barrier(cluster);
    return;
  }
  me_.why = blocked::cluster_barrier;
  machine_.yield(me_);
}

bool context::gave_up() const {
  const std::uint32_t* abort = shape_.limits.abort;
  return abort != nullptr && std::atomic_ref<std::uint32_t>{*const_cast<std::uint32_t*>(abort)}.load() != 0;
}

}  // namespace baton::sim
