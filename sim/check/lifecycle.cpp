// How an execution begins, passes barriers and ends.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <boost/context/detail/exception.hpp>
#include <exception>
#include <map>
#include <memory>
#include <new>
#include <utility>

#include "exec/site_name.hpp"
#include "sim/check/context.hpp"
#include "sim/check/execution.hpp"

namespace baton::check {
namespace {

bool meet(const position& a, const position& b, verb barrier, int cluster) {
  const bool of_rank = barrier == verb::next_kernel || barrier == verb::await_dependencies;
  if (a.rank != b.rank || of_rank) return a.rank == b.rank;
  return barrier == verb::sync_block ? a.block == b.block : a.block / cluster == b.block / cluster;
}

}  // namespace

execution::execution(workshop& shop, const bounds& limits, const builder& build, std::vector<event>* trace)
    : shop_{shop},
      limits_{limits},
      trace_{trace},
      program_{shop.program_memory, shop.allocated, shop.names, shop.found},
      warps_{shop.warps} {
  shop.found.clear();
  shop.names.clear();
  shop.allocated.clear();
  shop.program_memory.reset();
  build(program_);
  settle(program_);
  let_blocks_begin();
  go_on_without_steps();
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
  copied_out_ = p.allocate<std::uint64_t>(max_participants, "sources read by copy");
  aborts_ = p.allocate<std::uint32_t>(max_warps, "waits that gave up of rank");
  std::map<std::pair<int, int>, std::byte*> shared;
  for (auto& spawned : p.warps_) {
    spawned.where.cluster = spawned.where.block / p.cluster_;
    places.push_back(spawned.where);
    warp_state state;
    state.where = spawned.where;
    state.run = std::move(spawned.run);
    warps_.push_back(std::move(state));
    shared[{spawned.where.rank, spawned.where.block}] = nullptr;
  }
  // Side by side, with a gap between them.
  const std::size_t halves = p.begins_early_ ? 2 : 1;  // of kernels in turn
  const std::size_t stride =
      (p.shared_bytes_ + 2 * arena::alignment - 1) / arena::alignment * arena::alignment;
  auto* next = p.shared_bytes_ == 0
                   ? nullptr
                   : static_cast<std::byte*>(shop_.program_memory.take(halves * shared.size() * stride));
  for (auto& [place, block] : shared) {
    if (next == nullptr) break;
    block = next;
    for (std::size_t half = 0; half < halves; ++half, next += stride) name_shared(p, next, place);
  }
  for (warp_state& state : warps_) {
    state.shared = shared[{state.where.rank, state.where.block}];
    if (p.begins_early_ && state.shared != nullptr) state.other_shared = state.shared + stride;
    for (const position& other : places) {
      if (other.rank != state.where.rank) continue;
      state.num_blocks = std::max(state.num_blocks, other.block + 1);
      if (other.block == state.where.block) ++state.num_block_warps;
    }
  }
  shop_.ram.reset(places);
  for (const auto& [place, block] : shared) {
    for (std::size_t half = 0; block != nullptr && half < halves; ++half)
      shop_.ram.spoil({block + half * stride, p.shared_bytes_});
  }
}

void execution::name_shared(const program& p, std::byte* memory, std::pair<int, int> place) {
  shop_.allocated.add(memory, p.shared_bytes_, place.first, place.second);
  shop_.names.add(memory, 4, (p.shared_bytes_ + 3) / 4,
                  fmt::format("shared memory of rank {} block {}", place.first, place.second));
  for (const auto& part : p.shared_names_)
    shop_.names.add(memory + part.offset, part.element_bytes, part.count,
                    fmt::format("{} of block {}", part.name, place.second));
}

/// The block's shared memory is another one from here on. Its first warp finds garbage there: those of the kernel before
/// the last have ended, or the last one's could not have got past await_dependencies.
void execution::next_kernel_early(int warp) {
  warp_state& state = warps_[static_cast<std::size_t>(warp)];
  std::swap(state.shared, state.other_shared);
  state.began_early = true;
  shop_.ram.end_kernel(warp);
  ++state.kernel;
  const bool first = std::none_of(warps_.begin(), warps_.end(), [&](const warp_state& other) {
    return &other != &state && other.copy == nullptr && other.where.rank == state.where.rank &&
           other.where.block == state.where.block && other.kernel >= state.kernel;
  });
  if (first && state.shared != nullptr) shop_.ram.spoil({state.shared, program_.shared_bytes_});
}

void execution::await_dependencies(int warp) {
  bool& began_early = warps_[static_cast<std::size_t>(warp)].began_early;
  if (std::exchange(began_early, false))
    perform(warp, {verb::await_dependencies, order::acq_rel, scope::system});
}

void execution::spoil_shared_memory(int rank) {
  for (const warp_state& state : warps_) {
    const bool first_of_block = state.copy == nullptr && state.where.warp == 0;
    if (state.where.rank != rank || !first_of_block) continue;
    for (std::byte* half : {state.shared, state.other_shared})
      if (half != nullptr) shop_.ram.spoil({half, program_.shared_bytes_});
  }
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
    } catch (...) {
      thrown_ = std::current_exception();  // told of outside: that takes memory, and nothing leaves a fiber
    }
    me.finished = true;
    sim::stack_switch::leave(home_stack_);
    return std::move(me.home);
  };
  sim::pooled_stack stack{&state.stack, &shop_.stacks[static_cast<std::size_t>(warp)]};
  state.fiber = boost::context::fiber{std::allocator_arg, stack, std::move(life)};
  resume(warp);
}

void execution::resume(int warp) {
  warp_state& state = warps_[static_cast<std::size_t>(warp)];
  {
    const sim::stack_switch to{state.stack};
    state.fiber = std::move(state.fiber).resume();
  }
  if (thrown_) tell_of_thrown(state);
}

/// Memory that ran out is no finding of the program's.
void execution::tell_of_thrown(const warp_state& by) {
  try {
    std::rethrow_exception(std::exchange(thrown_, nullptr));
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    shop_.found.add(verdict::thrown, fmt::format("{} threw: {}", name(by.where), e.what()));
  }
}

/// The block runs, or fewer than there is room for do.
bool execution::has_room(int warp) const {
  const warp_state& me = warps_[static_cast<std::size_t>(warp)];
  if (me.is_resident || limits_.resident_blocks == 0) return true;
  warp_set running = 0;  // blocks
  for (int w = 0; w < num_real_warps_; ++w) {
    const warp_state& other = warps_[static_cast<std::size_t>(w)];
    if (other.where.rank != me.where.rank || !other.is_resident) continue;
    if (!other.finished && other.pending.what != verb::next_kernel) running |= only(other.where.block);
  }
  return std::popcount(running) < limits_.resident_blocks;
}

/// Blocks begin in order. Nothing of what the blocks before have done is known to one that takes their place.
bool execution::let_blocks_begin() {
  bool any = false;
  for (int w = 0; w < num_real_warps_; ++w) {
    const warp_state& first = warps_[static_cast<std::size_t>(w)];
    if (first.is_resident || !has_room(w)) continue;
    any = true;
    for (int other = 0; other < num_real_warps_; ++other) {
      const position& at = where(other);
      if (at.rank == first.where.rank && at.block == first.where.block)
        warps_[static_cast<std::size_t>(other)].is_resident = true;
    }
    for (int other = 0; other < num_real_warps_; ++other) {
      const position& at = where(other);
      if (at.rank == first.where.rank && at.block == first.where.block) begin_kernel(other);
    }
  }
  return any;
}

void execution::begin_kernel(int warp) {
  const warp_state& state = warps_[static_cast<std::size_t>(warp)];
  if (state.finished) return;
  if (state.fiber)
    resume(warp);
  else
    start_fiber(warp);
}

void execution::go_on_without_steps() {
  open_barriers();
  while (limits_.resident_blocks > 0 && let_blocks_begin()) open_barriers();
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
  if (barrier == verb::await_dependencies)
    shop_.ram.await_dependencies(members);
  else if (barrier == verb::meet_cluster)
    shop_.ram.meeting(members);
  else
    shop_.ram.barrier(members);
  if (ends_kernel) spoil_shared_memory(here.rank);
  std::erase_if(members, [this](int w) { return warps_[static_cast<std::size_t>(w)].copy != nullptr; });
  for (const int w : members) {
    warps_[static_cast<std::size_t>(w)].pending = {};
    if (ends_kernel) shop_.ram.fence_proxy(w, fenced::everything);
    record_on_the_way({where(w), barrier});
  }
  if (ends_kernel) {
    for (const int w : members) warps_[static_cast<std::size_t>(w)].is_resident = false;
    let_blocks_begin();
  } else {
    for (const int w : members) resume(w);
  }
  return true;
}

void execution::finish() {
  for (int rank = 0; rank <= warps_[static_cast<std::size_t>(num_real_warps_) - 1].where.rank; ++rank)
    report_loose_ends(rank);
  for (const warp_state& state : warps_)
    if (state.unreported != site{})
      shop_.found.add(verdict::broken_promise, fmt::format("{} gave up quietly at {} and did not report it",
                                                           name(state.where), name(state.unreported)));
  for (const auto& assertion : program_.at_end_) assertion();
}

void execution::report_deadlock() {
  std::string text = "nobody can go on:";
  for (int w = 0; w < num_warps(); ++w) {
    if (warps_[static_cast<std::size_t>(w)].finished) continue;
    const operation& op = pending(w);
    if (!runs(w)) {
      text += fmt::format("\n      {} waits for one of the {} resident blocks to end", name(where(w)),
                          limits_.resident_blocks);
      continue;
    }
    text += fmt::format("\n      {} waits at ", name(where(w)));
    if (op.wait == nullptr) {
      text += name(op.what);
      continue;
    }
    text += name(op.wait->where.where);
    if (op.wait->num_lines > 0) {
      text += lines_text(*op.wait);
      continue;
    }
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
