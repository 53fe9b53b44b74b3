// How an execution begins, passes barriers and ends.
#include <fmt/format.h>

#include <algorithm>
#include <boost/context/detail/exception.hpp>
#include <exception>
#include <map>
#include <memory>
#include <utility>

#include "sim/check/context.hpp"
#include "sim/check/execution.hpp"

namespace baton::check {
namespace {

/// As far down as warps usually get.
constexpr std::size_t usual_depth = std::size_t{1} << 14;

bool meet(const position& a, const position& b, verb barrier, int cluster) {
  if (a.rank != b.rank || barrier == verb::next_kernel) return a.rank == b.rank;
  return barrier == verb::sync_block ? a.block == b.block : a.block / cluster == b.block / cluster;
}

}  // namespace

execution::execution(workshop& shop, const bounds& limits, const builder& build, std::vector<event>* trace)
    : shop_{shop},
      limits_{limits},
      trace_{trace},
      program_{shop.program_memory, shop.names, shop.found},
      warps_{shop.warps} {
  shop.found.clear();
  shop.names.clear();
  shop.program_memory.reset();
  build(program_);
  settle(program_);
  for (int w = 0; w < num_real_warps_; ++w) start_fiber(w);
  open_barriers();
}

/// Unwinds the fibers that have not ended.
execution::~execution() {
  for (warp_state& state : warps_) {
    if (!state.fiber) continue;
    const sim::stack_switch to{state.stack};
    state.fiber = {};
  }
  warps_.clear();
}

/// Fixes the geometry and gives each block its shared memory.
void execution::settle(program& p) {
  std::vector<position> places;
  warps_.reserve(max_participants);  // a warp's state is referred to while copies are added
  num_real_warps_ = static_cast<int>(p.warps_.size());
  copied_out_ =
      static_cast<std::uint64_t*>(shop_.program_memory.take(max_participants * sizeof(std::uint64_t)));
  shop_.names.add(copied_out_, sizeof(std::uint64_t), max_participants, "sources read by copy");
  std::map<std::pair<int, int>, std::byte*> shared;
  for (auto& spawned : p.warps_) {
    spawned.where.cluster = spawned.where.block / p.cluster_;
    places.push_back(spawned.where);
    warp_state state;
    state.where = spawned.where;
    state.run = std::move(spawned.run);
    warps_.push_back(std::move(state));
    std::byte*& block = shared[{spawned.where.rank, spawned.where.block}];
    if (block != nullptr || p.shared_bytes_ == 0) continue;
    block = static_cast<std::byte*>(shop_.program_memory.take(p.shared_bytes_));
    shop_.names.add(
        block, 4, (p.shared_bytes_ + 3) / 4,
        fmt::format("shared memory of rank {} block {}", spawned.where.rank, spawned.where.block));
    for (const auto& part : p.shared_names_)
      shop_.names.add(block + part.offset, part.element_bytes, part.count,
                      fmt::format("{} of block {}", part.name, spawned.where.block));
  }
  for (warp_state& state : warps_) {
    state.shared = shared[{state.where.rank, state.where.block}];
    for (const position& other : places) {
      if (other.rank != state.where.rank) continue;
      state.num_blocks = std::max(state.num_blocks, other.block + 1);
      if (other.block == state.where.block) ++state.num_block_warps;
    }
  }
  shop_.ram.reset(places);
}

void execution::start_fiber(int warp) {
  warp_state& state = warps_[static_cast<std::size_t>(warp)];
  auto life = [this, warp](boost::context::fiber&& home) {
    warp_state& me = warps_[static_cast<std::size_t>(warp)];
    me.home = std::move(home);
    sim::stack_switch::arrive(home_stack_);
    try {
      context x{*this, warp};
      me.run(x);
    } catch (const boost::context::detail::forced_unwind&) {
      sim::stack_switch::leave(home_stack_);
      throw;  // the execution is being abandoned
    } catch (const std::exception& e) {
      shop_.found.add(verdict::thrown, fmt::format("{} threw: {}", name(me.where), e.what()));
    }
    me.finished = true;
    sim::stack_switch::leave(home_stack_);
    return std::move(me.home);
  };
  sim::pooled_stack stack{&state.stack, &shop_.stacks[static_cast<std::size_t>(warp)],
                          limits_.how == reduction::states ? usual_depth : 0};
  state.fiber = boost::context::fiber{std::allocator_arg, stack, std::move(life)};
  resume(warp);
}

void execution::resume(int warp) {
  warp_state& state = warps_[static_cast<std::size_t>(warp)];
  const sim::stack_switch to{state.stack};
  state.fiber = std::move(state.fiber).resume();
}

/// Passing a barrier that everybody has reached commutes with everything else: no choice, no step.
void execution::open_barriers() {
  for (int w = 0; w < num_warps();) {
    const warp_state& state = warps_[static_cast<std::size_t>(w)];
    const bool passed = !state.finished && is_barrier(state.pending.what) && open_barrier(w);
    w = passed ? 0 : w + 1;
  }
}

bool execution::open_barrier(int warp) {
  const position& here = where(warp);
  const verb barrier = pending(warp).what;
  std::vector<int> members;
  const bool ends_kernel = barrier == verb::next_kernel;
  for (int w = 0; w < num_warps(); ++w) {
    const warp_state& other = warps_[static_cast<std::size_t>(w)];
    if (!meet(here, other.where, barrier, program_.cluster_)) continue;
    if (other.copy != nullptr) {
      if (ends_kernel && !other.finished) return false;
      if (ends_kernel) members.push_back(w);
      continue;
    }
    if (other.finished) {
      if (other.gave_up) continue;  // the hardware counts warps that have left
      shop_.found.add(verdict::divergence, fmt::format("{} waits at {}, but {} has returned", name(here),
                                                       name(barrier), name(other.where)));
      return false;
    }
    if (other.pending.what != barrier) return false;
    members.push_back(w);
  }
  if (ends_kernel) report_loose_ends(here.rank);
  shop_.ram.barrier(members);
  std::erase_if(members, [this](int w) { return warps_[static_cast<std::size_t>(w)].copy != nullptr; });
  for (const int w : members) {
    warps_[static_cast<std::size_t>(w)].pending = {};
    if (ends_kernel) shop_.ram.fence_proxy(w, true);
    record_on_the_way({where(w), barrier});
  }
  for (const int w : members) resume(w);
  return true;
}

void execution::finish() {
  for (int rank = 0; rank <= warps_[static_cast<std::size_t>(num_real_warps_) - 1].where.rank; ++rank)
    report_loose_ends(rank);
  for (const auto& assertion : program_.at_end_) assertion();
}

void execution::report_deadlock() {
  std::string text = "nobody can go on:";
  for (int w = 0; w < num_warps(); ++w) {
    if (warps_[static_cast<std::size_t>(w)].finished) continue;
    const operation& op = pending(w);
    text += fmt::format("\n      {} waits at ", name(where(w)));
    if (op.wait == nullptr) {
      text += name(op.what);
      continue;
    }
    text += name(op.wait->where.where);
    for (int i = 0; i < op.wait->num_words; ++i) {
      const awaited_word& asked = op.wait->words[static_cast<std::size_t>(i)];
      const std::uint64_t value = word(shop_.ram.word_at(asked.address, op.bytes)).messages.back().value;
      if (op.wait->holds(op.wait->predicate, asked.lane, value)) continue;
      if (op.wait->is_phase) {
        text += fmt::format(" for {}, parity {} ({})", shop_.names.of(asked.address), op.wait->where.expected,
                            phase_text(shop_.ram.mbarrier_word(shop_.ram.word_at(asked.address, op.bytes))));
        continue;
      }
      text += fmt::format(" for {} (holds {:#x}; epoch {}, expects {:#x})", shop_.names.of(asked.address),
                          value, op.wait->where.epoch, op.wait->where.expected);
    }
  }
  shop_.found.add(verdict::deadlock, std::move(text));
}

}  // namespace baton::check
