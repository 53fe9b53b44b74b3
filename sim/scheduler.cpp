// Which warp runs next, and how it starts, stops and waits.
#include <fmt/format.h>

#include "baton/error.hpp"
#include "sim/context.hpp"
#include "sim/machine_state.hpp"

namespace baton::sim {

namespace {

/// A stack takes two of the 65,530 mappings that Linux gives a process by default.
constexpr std::size_t most_warps = 16'384;

}  // namespace

void machine::state::start_kernel(int rank, stream_queue& q, const work_item& item) {
  const std::size_t warps = active.size() + static_cast<std::size_t>(item.shape.blocks) *
                                                static_cast<std::size_t>(item.shape.warps);
  if (warps > most_warps)
    throw unsupported{fmt::format(
        "kernels of {} warps at the same time: the CPU machine runs at most {}; lower num_sms or num_threads",
        warps, most_warps)};
  auto kernel = std::make_unique<kernel_state>();
  kernel->shape = item.shape;
  kernel->body = item.kernel;
  for (int b = 0; b < item.shape.blocks; ++b) {
    if (b % item.shape.cluster == 0) kernel->clusters.push_back(std::make_unique<cluster_state>());
    kernel->blocks.push_back(std::make_unique<block_state>());
    block_state& block = *kernel->blocks.back();
    block.live = item.shape.warps;
    block.stores.comes_before(of(rank).stores);
    block.shared.resize(item.shape.shared_bytes);
    if (opts.delay_stores) block.engine_view = block.shared;
    block.cluster = kernel->clusters.back().get();
    block.cluster->live += item.shape.warps;
    block.cluster->blocks.push_back(&block);
    for (int w = 0; w < item.shape.warps; ++w) {
      auto warp = std::make_unique<warp_state>();
      warp->kernel = kernel.get();
      warp->home = &block;
      warp->stores.comes_before(block.stores);
      warp->rank = rank;
      warp->block = b;
      warp->warp = w;
      warp->priority = lowest_priority + random() % (1u << 20);
      kernel->warps.push_back(std::move(warp));
    }
  }
  active.reserve(active.size() + kernel->warps.size());
  for (const auto& warp : kernel->warps) active.push_back(warp.get());
  has_ended = has_ended || kernel->warps.empty();
  q.running = std::move(kernel);
}

bool machine::state::can_run(const warp_state& w) const {
  if (w.done) return false;
  if (w.why != blocked::no && (w.why != blocked::wait || w.seen_version == version)) return false;
  return has_room(w);
}

/// Blocks of a cluster begin together.
bool machine::state::has_room(const warp_state& w) const {
  if (opts.max_blocks == 0) return true;
  const cluster_state& cluster = *w.home->cluster;
  if (cluster.has_begun) return true;
  return ranks[static_cast<std::size_t>(w.rank)].blocks_running + cluster.blocks.size() <=
         static_cast<std::size_t>(opts.max_blocks);
}

warp_state* machine::state::pick() {
  if (opts.order == schedule::priority) return pick_by_priority();
  const std::size_t start = opts.order == schedule::random ? random() % active.size() : next;
  warp_state* slow = nullptr;
  for (std::size_t i = 0; i < active.size(); ++i) {
    warp_state* w = active[(start + i) % active.size()];
    if (!can_run(*w)) continue;
    next = (start + i + 1) % active.size();
    if (fault_of(w->rank, fault::kind::slow) == nullptr) return w;
    if (slow == nullptr) slow = w;
  }
  return slow;  // a slow rank runs when nobody else can
}

warp_state* machine::state::pick_by_priority() {
  warp_state* best = nullptr;
  for (warp_state* w : active) {
    if ((best == nullptr || w->priority > best->priority) && can_run(*w)) best = w;
  }
  return best;
}

bool machine::state::run_one() {
  warp_state* w = active.empty() ? nullptr : pick();
  if (engine_goes_next(w)) {
    ++total_steps;
    progress_copies();
    return true;
  }
  if (network_goes_next(w)) {
    ++total_steps;
    progress_network();
    return true;
  }
  if (w == nullptr) return false;
  resume(*w);
  return true;
}

void machine::state::resume(warp_state& w) {
  w.why = blocked::no;
  if (cluster_state& cluster = *w.home->cluster; !cluster.has_begun) {
    cluster.has_begun = true;
    of(w.rank).blocks_running += cluster.blocks.size();
  }
  if (!w.fiber) {
    w.fiber = boost::context::fiber{std::allocator_arg, pooled_stack{&w.stack},
                                    [this, &w](boost::context::fiber&& scheduler) {
                                      w.scheduler = std::move(scheduler);
                                      stack_switch::arrive(w.scheduler_stack);
                                      run_body(w);
                                      stack_switch::leave(w.scheduler_stack);
                                      return std::move(w.scheduler);
                                    }};
  }
  {
    const stack_switch to{w.stack};
    w.fiber = std::move(w.fiber).resume();
  }
  if (!w.done) return;
  has_ended = true;
  w.stores.move_to(w.home->stores);
  w.shared_stores.to_memory();
  leave_barriers(w);
}

void machine::state::leave_barriers(warp_state& w) {
  block_state& block = *w.home;
  if (--block.live > 0 && block.arrived == block.live) open_barrier(block);
  cluster_state& cluster = *block.cluster;
  if (--cluster.live > 0 && cluster.arrived == cluster.live) open_barrier(cluster);
  if (cluster.live == 0) of(w.rank).blocks_running -= cluster.blocks.size();
}

void machine::state::run_body(warp_state& w) {
  try {
    context x{*this, w, w.kernel->shape};
    w.kernel->body(x);
  } catch (const boost::context::detail::forced_unwind&) {
    stack_switch::leave(w.scheduler_stack);
    throw;
  } catch (...) {
    failure = std::current_exception();
  }
  w.done = true;
}

void machine::state::yield(warp_state& w) {
  const stack_switch to{w.scheduler_stack, &w.scheduler_stack};
  w.scheduler = std::move(w.scheduler).resume();
}

void machine::state::open_barrier(block_state& b) {
  b.arrived = 0;
  for (warp_state* w : active) {
    if (w->home == &b && w->why == blocked::barrier) w->why = blocked::no;
  }
}

void machine::state::open_barrier(cluster_state& c) {
  c.arrived = 0;
  for (warp_state* w : active) {
    if (w->home->cluster == &c && w->why == blocked::cluster_barrier) w->why = blocked::no;
  }
}

void machine::state::open_barrier(block_state& b, int group_barrier) {
  b.group_barriers[group_barrier] = {};
  for (warp_state* w : active) {
    if (w->home == &b && w->why == blocked::group_barrier && w->group_barrier == group_barrier)
      w->why = blocked::no;
  }
}

bool machine::state::dies_now(int rank) {
  rank_state& r = ranks[static_cast<std::size_t>(rank)];
  ++total_steps;
  const fault* f = fault_of(rank, fault::kind::dies_at_step);
  if (f != nullptr && r.steps == f->step) r.dead = has_ended = true;
  ++r.steps;
  return r.dead;
}

}  // namespace baton::sim
