#include "sim/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "baton/error.hpp"
#include "exec/site_name.hpp"
#include "sim/context.hpp"
#include "sim/machine_state.hpp"

namespace baton::sim {

machine::machine(int num_ranks, options opts) : state_{std::make_unique<state>(num_ranks, std::move(opts))} {}
machine::~machine() = default;

machine::state::state(int num_ranks, options o)
    : opts{std::move(o)},
      ranks{static_cast<std::size_t>(num_ranks)},
      traffic(ranks.size() * ranks.size()),
      random{opts.seed},
      bit_flipped(opts.faults.size(), false) {
  if (opts.order != schedule::priority) return;
  for (int i = 0; i < 8; ++i) change_points.insert(random() % 4096);
}

std::uint64_t machine::now_ns() const {
  return state_->now_ns();
}

std::uint64_t machine::state::now_ns() {
  if (opts.virtual_clock) return clock;
  return static_cast<std::uint64_t>(std::chrono::nanoseconds{running.look()}.count());
}

void machine::look(const std::function<void()>& f) const {
  const std::lock_guard lock{state_->mutex};
  f();
}

network_traffic machine::sent_through_network(int from, int to) const {
  const std::lock_guard lock{state_->mutex};
  return state_->traffic_of(from, to);
}

const options& machine::settings() const {
  return state_->opts;
}

/// Nobody can run: lets delayed stores arrive, else lets time pass until somebody's deadline, else gives up.
void machine::state::idle(std::unique_lock<std::mutex>& lock) {
  if (opts.delay_stores) {
    const std::uint64_t before = version;
    for (warp_state* w : active) {
      if (!w->stores.empty()) ++version;
      w->stores.to_memory();
      if (!w->shared_stores.empty()) ++version;
      w->shared_stores.to_memory();
      if (!w->home->stores.empty()) ++version;
      w->home->stores.to_memory();
    }
    for (rank_state& r : ranks) flush_rank(r);
    if (version != before) return;
  }
  if (opts.virtual_clock) {
    advance_clock();
  } else {
    wait_for_others(lock);
  }
  seen_idle = ++version;
}

/// For what other processes store, the more patiently the longer nothing has happened here: their cores may be ours.
void machine::state::wait_for_others(std::unique_lock<std::mutex>& lock) {
  using std::chrono::nanoseconds;
  constexpr nanoseconds shortest = std::chrono::microseconds{20}, longest = std::chrono::milliseconds{1};
  const auto now = std::chrono::steady_clock::now();
  if (version != seen_idle) idle_since = now;
  enqueued.wait_for(lock, std::clamp<nanoseconds>((now - idle_since) / 16, shortest, longest));
}

void machine::state::advance_clock() {
  std::uint64_t wake = 0;
  for (const warp_state* w : active) {
    if (w->why == blocked::wait && w->wake_at != 0 && (wake == 0 || w->wake_at < wake)) wake = w->wake_at;
  }
  if (wake == 0) throw error{"the machine is deadlocked and no wait has a deadline:" + who_waits()};
  clock = clock < wake ? wake : clock;
}

std::string machine::state::who_waits() const {
  std::string text;
  for (const warp_state* w : active) {
    if (w->why == blocked::no) continue;
    text += fmt::format("\n  rank {} block {} warp {}: ", w->rank, w->block, w->warp);
    if (w->why == blocked::barrier)
      text += "block barrier";
    else if (w->why == blocked::cluster_barrier)
      text += "cluster barrier";
    else if (w->why == blocked::group_barrier)
      text += fmt::format("group barrier {}", w->group_barrier);
    else
      text += fmt::format("{}, expects {:#x}", name(w->at.where), w->at.expected);
  }
  return text;
}

const fault* machine::state::fault_of(int rank, enum fault::kind kind) const {
  for (const fault& f : opts.faults) {
    if (f.rank == rank && f.what == kind) return &f;
  }
  return nullptr;
}

}  // namespace baton::sim
