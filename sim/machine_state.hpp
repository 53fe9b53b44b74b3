#pragma once
// The machine's inside: queues, scheduler, clock, faults.
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <random>
#include <set>

#include "base/attended_time.hpp"
#include "sim/copy_engine.hpp"
#include "sim/machine.hpp"
#include "sim/warp.hpp"

namespace baton::sim {

struct work_item {
  grid shape = {};
  std::function<void(context&)> kernel = {};        // or
  std::function<void()> host = {};                  // or
  std::shared_ptr<const bool> waits_for = nullptr;  // another stream
};

struct stream_queue {
  stream_name name = nullptr;
  std::deque<work_item> items;
  std::unique_ptr<kernel_state> running;
  bool in_use() const { return running != nullptr || !items.empty(); }
};

struct rank_state {
  std::deque<stream_queue> streams;
  store_list stores;
  std::uint64_t steps = 0;
  std::uint64_t fences = 0;  // of its puts
  bool dead = false;
  std::size_t blocks_running = 0;
  std::exception_ptr failure;  // that cost the rank its work; run() throws it on

  stream_queue& stream(stream_name name);  // made if need be
  bool in_use(stream_name name) const;
  bool in_use() const;
};

struct machine::state {
  state(int num_ranks, options o);

  // queues
  template <class InUse>
  void run_while(int rank, InUse in_use);
  rank_state& of(int rank) { return ranks[static_cast<std::size_t>(rank)]; }
  void enqueue(int rank, stream_name on, work_item item);
  void start_ready_work();
  bool start_next(int rank, stream_queue& q);  // false: nothing of it can begin
  void start_kernel(int rank, stream_queue& q, const work_item& item);
  bool run_until_one_ends();  // false: nobody can run
  void retire_finished();
  void retire(rank_state& r, stream_queue& q);
  void flush_rank(rank_state& r);
  void drop_work(int rank);
  void fail(const std::exception_ptr& why);

  // scheduler
  bool run_one();  // false: nobody can run
  warp_state* pick();
  warp_state* pick_by_priority();
  bool can_run(const warp_state& w) const;
  bool has_room(const warp_state& w) const;
  void resume(warp_state& w);
  void run_body(warp_state& w);
  void yield(warp_state& w);  // from inside the warp
  void open_barrier(block_state& b);
  void open_barrier(cluster_state& c);
  void open_barrier(block_state& b, int group_barrier);
  void leave_barriers(warp_state& w);  // of a warp that has ended
  void idle(std::unique_lock<std::mutex>& lock);
  void wait_for_others(std::unique_lock<std::mutex>& lock);
  void advance_clock();
  std::string who_waits() const;

  std::uint64_t now_ns();

  // copy engine
  void issue(const copy_piece& whole);
  void issue_one(copy_piece piece);
  bool engine_goes_next(const warp_state* w);
  void progress_copies();
  void advance(std::size_t piece);
  void read_source(copy_piece& piece);
  void write_target(const copy_piece& landed);
  void count_on(const copy_piece& piece);
  void finish_copies(const kernel_state& kernel);

  // network
  void send(network_message whole);
  bool network_goes_next(const warp_state* w);
  void progress_network();
  void advance_message(std::size_t i);
  network_traffic& traffic_of(int from, int to) {
    return traffic[static_cast<std::size_t>(from) * ranks.size() + static_cast<std::size_t>(to)];
  }
  void settle_network();  // all that is under way arrives
  bool is_cut_off(int rank) const;

  // faults
  bool dies_now(int rank);
  const fault* fault_of(int rank, enum fault::kind kind) const;

  options opts;
  std::mutex mutex;
  std::condition_variable enqueued;
  std::vector<rank_state> ranks;
  std::vector<warp_state*> active;
  copy_pieces copies;
  network sent;
  std::vector<network_traffic> traffic;  // [from, to]
  std::size_t next = 0;                  // round robin
  std::exception_ptr failure;            // thrown inside a kernel just now
  bool has_ended = false;                // a warp or a rank, since streams were last looked at
  std::uint64_t version = 1;             // of memory: a wait that found nothing looks again when it changes
  std::uint64_t seen_idle = 0;           // version, when it was last found that nobody can run
  std::chrono::steady_clock::time_point idle_since;
  std::uint64_t clock = 0;
  attended_time running;  // without a virtual clock
  std::uint64_t total_steps = 0;
  std::set<std::uint64_t> change_points;  // schedule::priority
  std::uint64_t lowest_priority = 1u << 20;
  std::mt19937_64 random;
  std::vector<bool> bit_flipped;
};

}  // namespace baton::sim
