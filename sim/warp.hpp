#pragma once
// What the machine knows of a running kernel: its warps (fibers), blocks and their barriers.
#include <boost/context/fiber.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exec/wait.hpp"
#include "sim/fiber_stack.hpp"
#include "sim/machine.hpp"
#include "sim/store_buffer.hpp"

namespace baton::sim {

struct block_state;
struct kernel_state;

/// Blocks that share a barrier and reach each other's shared memory.
struct cluster_state {
  int arrived = 0;  // warps at the current barrier
  int live = 0;
  bool has_begun = false;  // and takes room until its last warp ends
  std::vector<block_state*> blocks;
};

/// A barrier of some groups of a block, by its number.
struct group_barrier {
  int arrived = 0;  // warps
  int groups = 0;   // that it is for, as the first to arrive said
};

struct block_state {
  int arrived = 0;  // warps at the current barrier
  int live = 0;
  int waiting = 0;  // warps in a wait: only they care about changes at block scope
  cluster_state* cluster = nullptr;
  group_barrier group_barriers[16];
  std::vector<std::byte> shared;
  std::vector<std::byte> engine_view;  // shared as the copy engine sees it, where stores are delayed
  store_list stores;
};

/// Why a warp is not running.
enum class blocked { no, barrier, cluster_barrier, group_barrier, wait };

struct warp_state {
  warp_state() = default;
  warp_state(const warp_state&) = delete;
  warp_state& operator=(const warp_state&) = delete;
  ~warp_state() {
    if (!fiber) return;
    const stack_switch to{stack};  // an abandoned warp unwinds
    fiber = {};
  }

  boost::context::fiber fiber;      // the warp, while it is not running
  boost::context::fiber scheduler;  // who resumed it, while it is
  stack_bounds stack, scheduler_stack;
  const kernel_state* kernel = nullptr;
  block_state* home = nullptr;
  int rank = 0, block = 0, warp = 0;
  bool done = false;
  blocked why = blocked::no;
  int group_barrier = 0;           // at which it stands
  std::uint64_t seen_version = 0;  // of memory, when a wait last found nothing
  std::uint64_t wake_at = 0;       // deadline of the wait, 0: none
  std::uint64_t priority = 0;
  wait_site at;
  store_list stores;             // to global memory
  store_list shared_stores;      // to shared memory
  std::uint64_t open_group = 0;  // of bulk stores; earlier ones are committed
};

struct kernel_state {
  grid shape;
  std::function<void(context&)> body;
  std::vector<std::unique_ptr<cluster_state>> clusters;
  std::vector<std::unique_ptr<block_state>> blocks;
  std::vector<std::unique_ptr<warp_state>> warps;
};

}  // namespace baton::sim
