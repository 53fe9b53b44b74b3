#pragma once
// The machine's inside: queues, scheduler, clock, faults.
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <random>
#include <set>

#include "sim/copy_engine.hpp"
#include "sim/machine.hpp"
#include "sim/warp.hpp"

namespace baton::sim {

struct rank_state {
  struct item {
    grid shape;
    std::function<void(context&)> kernel;  // or
    std::function<void()> host;
  };
  std::deque<item> queue;
  std::unique_ptr<kernel_state> running;
  store_list stores;
  std::uint64_t steps = 0;
  bool dead = false;
};

struct machine::state {
  state(int num_ranks, options o);

  // queues
  void start_ready_work();
  void start_kernel(int rank, rank_state::item item);
  void retire_finished();
  void flush_rank(rank_state& r);

  // scheduler
  bool run_one();  // false: nobody can run
  warp_state* pick();
  warp_state* pick_by_priority();
  bool can_run(const warp_state& w) const;
  void resume(warp_state& w);
  void run_body(warp_state& w);
  void yield(warp_state& w);  // from inside the warp
  void open_barrier(block_state& b);
  void open_barrier(cluster_state& c);
  void leave_barriers(warp_state& w);  // of a warp that has ended
  void idle(std::unique_lock<std::mutex>& lock);
  void advance_clock();
  std::string who_waits() const;
  bool rank_in_use(int rank) const;

  std::uint64_t now_ns() const;

  // copy engine
  void issue(const copy_piece& whole);
  bool engine_goes_next(const warp_state* w);
  void progress_copies();
  void advance(std::size_t piece);
  void count_on(const copy_piece& piece);
  void finish_copies(int rank);

  // faults
  bool dies_now(int rank);
  const fault* fault_of(int rank, enum fault::kind kind) const;

  options opts;
  std::mutex mutex;
  std::condition_variable enqueued;
  std::vector<rank_state> ranks;
  std::vector<warp_state*> active;
  std::vector<copy_piece> copies;
  std::size_t next = 0;        // round robin
  std::exception_ptr failure;  // thrown inside a kernel; run() throws it on
  std::uint64_t version = 1;   // of memory: a wait that found nothing looks again when it changes
  std::uint64_t clock = 0;
  std::uint64_t total_steps = 0;
  std::set<std::uint64_t> change_points;  // schedule::priority
  std::uint64_t lowest_priority = 1u << 20;
  std::mt19937_64 random;
  std::vector<bool> bit_flipped;
};

}  // namespace baton::sim
