// What is enqueued: the streams of every rank, the order between them, and what a failure costs.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "baton/error.hpp"
#include "sim/machine.hpp"
#include "sim/machine_state.hpp"

namespace baton::sim {

stream_queue& rank_state::stream(stream_name name) {
  for (stream_queue& q : streams)
    if (q.name == name) return q;
  std::erase_if(streams, [](const stream_queue& q) { return !q.in_use(); });
  streams.emplace_back().name = name;
  return streams.back();
}

bool rank_state::in_use(stream_name name) const {
  return std::any_of(streams.begin(), streams.end(),
                     [&](const stream_queue& q) { return q.name == name && q.in_use(); });
}

bool rank_state::in_use() const {
  return std::any_of(streams.begin(), streams.end(), [](const stream_queue& q) { return q.in_use(); });
}

void machine::launch(int rank, grid g, std::function<void(context&)> kernel, stream_name on) {
  if (g.cluster < 1 || g.blocks % g.cluster != 0)
    throw invalid_argument{fmt::format("cluster: {} blocks do not make clusters of {}", g.blocks, g.cluster)};
  const std::lock_guard lock{state_->mutex};
  state_->enqueue(rank, on, {.shape = g, .kernel = std::move(kernel)});
}

void machine::host(int rank, std::function<void()> work, stream_name on) {
  const std::lock_guard lock{state_->mutex};
  state_->enqueue(rank, on, {.host = std::move(work)});
}

void machine::chain(int rank, stream_name earlier, stream_name later) {
  const std::lock_guard lock{state_->mutex};
  if (earlier == later || !state_->of(rank).in_use(earlier)) return;
  auto reached = std::make_shared<bool>(false);
  state_->enqueue(rank, later, {.waits_for = reached});
  state_->enqueue(rank, earlier, {.host = [reached] { *reached = true; }});
}

void machine::run(int rank, stream_name on) {
  state_->run_while(rank, [on](const rank_state& own) { return own.in_use(on); });
}

void machine::finish(int rank) {
  state_->run_while(rank, [](const rank_state& own) { return own.in_use(); });
}

template <class InUse>
void machine::state::run_while(int rank, InUse in_use) {
  std::unique_lock lock{mutex};
  rank_state& own = of(rank);
  while (own.failure == nullptr && in_use(own)) {
    try {
      start_ready_work();
      if (run_until_one_ends()) {
        if (!failure) retire_finished();
        if (failure) std::rethrow_exception(std::exchange(failure, nullptr));
      } else if (in_use(own)) {
        idle(lock);
      }
    } catch (...) {
      fail(std::current_exception());
    }
  }
  if (own.failure != nullptr) std::rethrow_exception(std::exchange(own.failure, nullptr));
}

/// What streams hold changes only where a warp or a rank ends: nobody looks at them after each step.
bool machine::state::run_until_one_ends() {
  do {
    if (!run_one()) return false;
  } while (!has_ended && !failure);
  return true;
}

bool machine::abandon(int rank) {
  const std::lock_guard lock{state_->mutex};
  const bool had_work = state_->of(rank).in_use();
  state_->drop_work(rank);
  return had_work;
}

void machine::release(std::shared_ptr<void> memory) {
  const std::lock_guard lock{state_->mutex};
  state_->settle_network();
  for (rank_state& r : state_->ranks) {
    if (!r.in_use()) state_->flush_rank(r);
    for (stream_queue& q : r.streams)
      if (q.in_use()) q.items.push_back({.host = [memory] {}});
  }
}

void machine::state::enqueue(int rank, stream_name on, work_item item) {
  of(rank).stream(on).items.push_back(std::move(item));
  enqueued.notify_all();
}

void machine::state::flush_rank(rank_state& r) {
  if (r.stores.empty()) return;
  r.stores.to_memory();
  ++version;
}

/// Until nothing more can begin: what one stream has done may let another go on.
void machine::state::start_ready_work() {
  for (bool began = true; began;) {
    began = false;
    for (std::size_t r = 0; r < ranks.size(); ++r)
      for (stream_queue& q : ranks[r].streams)
        while (start_next(static_cast<int>(r), q)) began = true;
  }
}

bool machine::state::start_next(int rank, stream_queue& q) {
  if (q.running != nullptr || q.items.empty()) return false;
  if (q.items.front().waits_for != nullptr && !*q.items.front().waits_for) return false;
  const work_item& item = q.items.front();  // stays there if it throws: who queued it is told
  const bool lost = of(rank).dead || fault_of(rank, fault::kind::never_launches) != nullptr;
  if (item.host) {
    flush_rank(of(rank));
    item.host();
    ++version;
  } else if (item.kernel && !lost) {
    start_kernel(rank, q, item);
  }
  q.items.pop_front();
  return true;
}

void machine::state::retire_finished() {
  has_ended = false;
  for (rank_state& r : ranks)
    for (stream_queue& q : r.streams)
      if (q.running != nullptr) retire(r, q);
}

void machine::state::retire(rank_state& r, stream_queue& q) {
  const kernel_state& kernel = *q.running;
  const bool done =
      std::all_of(kernel.warps.begin(), kernel.warps.end(), [](const auto& w) { return w->done; });
  if (!done && !r.dead) return;
  finish_copies(kernel);
  if (failure) return;  // whose it is shows in what is running
  for (const auto& b : kernel.blocks) b->stores.move_to(r.stores);
  std::erase_if(active, [&](const warp_state* w) { return w->kernel == &kernel; });
  for (const auto& c : kernel.clusters)
    if (c->has_begun && c->live > 0) r.blocks_running -= c->blocks.size();  // the rank is dead
  q.running.reset();
  if (!opts.delay_stores) flush_rank(r);
}

/// Warps unwind before anything that they or their successors hold goes.
void machine::state::drop_work(int rank) {
  rank_state& r = of(rank);
  copies.erase_if([&](const copy_piece& piece) { return piece.owner->rank == rank; });
  sent.drop_from(rank);
  std::erase_if(active, [&](const warp_state* w) { return w->rank == rank; });
  for (stream_queue& q : r.streams) q.running.reset();
  r.streams.clear();
  r.blocks_running = 0;
  r.stores.drop();
  ++version;
}

void machine::state::fail(const std::exception_ptr& why) {
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (!ranks[r].in_use()) continue;
    drop_work(static_cast<int>(r));
    ranks[r].failure = why;
  }
}

}  // namespace baton::sim
