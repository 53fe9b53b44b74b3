#pragma once
// The CPU machine: runs kernels of one or all ranks as fibers, one fiber a warp.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exec/wait.hpp"
#include "sim/network.hpp"

namespace baton::sim {

class context;

/// Which runnable warp goes next.
enum class schedule {
  round_robin,  // fair; the product's
  random,       // uniform, from the seed
  priority,     // fixed random priorities with a few seeded change points (PCT): finds deep orderings
};

/// What goes wrong, for tests.
struct fault {
  enum class kind {
    none,
    never_launches,
    dies_at_step,
    slow,
    flips_bit,
    is_cut_off,        // from a step on, the network loses what the rank puts or signals, and what is for it
    ignores_releases,  // planted bug: releases and fences of the rank order nothing
    releases_to_device_only,  // planted bug: system scope is taken for device scope
    forgets_fences,  // planted bug: what the rank signals waits for none of its puts, its own neither
  } what = kind::none;
  int rank = 0;
  std::uint64_t step = 0;            // dies_at_step, is_cut_off: the rank's n-th atomic access or wait
  const void* word_begin = nullptr;  // flips_bit: the first system-scope store into [word_begin, word_end)
  const void* word_end = nullptr;    //   by `rank` gets `mask` xored in
  std::uint64_t mask = 0;
};

struct options {
  schedule order = schedule::round_robin;
  std::uint64_t seed = 1;
  bool delay_stores =
      false;  // plain and relaxed stores stay invisible to others until a release orders them,
              // and to the copy engine until a proxy fence does
  bool virtual_clock = true;  // time advances only when nobody can run, by as much as the next deadline
                              // needs. False: real time, for ranks driven by other threads or processes
  int max_blocks = 0;  // of a rank's kernels at the same time, as a GPU has room for; 0: any number. Which
                       // of those that are ready begins first is the schedule's choice
  std::vector<fault> faults;
};

struct grid {
  int blocks = 1;
  int warps = 1;
  std::size_t shared_bytes = 0;
  wait_limits limits = {};
  int cluster = 1;  // blocks of a cluster; divides blocks
};

/// Names one of a rank's queues; any address will do. Null: the queue that a rank has from the beginning.
using stream_name = const void*;

/// Each rank has a queue of kernels and host functions for each stream, run in order. All queues run interleaved, so a
/// kernel may wait for one of another rank or stream. Ranks may be driven by one thread or by several; whoever calls
/// run() executes whatever is ready, of all ranks.
///
/// What a kernel or host function throws ends all work: every rank that had some loses it, queued and begun, and is told once,
/// by its next run() or finish().
class machine {
 public:
  explicit machine(int num_ranks, options opts = {});
  ~machine();
  machine(const machine&) = delete;
  machine& operator=(const machine&) = delete;

  void launch(int rank, grid g, std::function<void(context&)> kernel, stream_name on = nullptr);
  void host(int rank, std::function<void()> work, stream_name on = nullptr);
  /// What is enqueued on `later` from now on begins after what is on `earlier` now.
  void chain(int rank, stream_name earlier, stream_name later);

  /// Runs all queues until this one is empty. If nobody can run and no wait has a deadline, throws
  /// baton::error with the list of who waits where.
  void run(int rank, stream_name on = nullptr);
  /// The same until all queues of the rank are empty.
  void finish(int rank);

  /// Drops what the rank has begun or queued. True if there was any.
  bool abandon(int rank);
  /// Lets go of memory once nothing that is queued now can use it.
  void release(std::shared_ptr<void> memory);

  /// Calls `f` while no warp runs, from any thread: what kernels write can be read, also while they wait.
  void look(const std::function<void()>& f) const;

  /// What a rank has put and signalled to another one through the network, since the beginning.
  network_traffic sent_through_network(int from, int to) const;

  std::uint64_t now_ns() const;  // for warps that run
  const options& settings() const;

 private:
  friend class context;
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace baton::sim
