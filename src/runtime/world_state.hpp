#pragma once
// What a world holds: identity, how ranks meet, and the memory through which kernels report.
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "baton/error.hpp"
#include "baton/world.hpp"
#include "bootstrap/group.hpp"
#include "exec/wait.hpp"

namespace baton::sim {
class machine;
}
namespace baton::bootstrap {
class thread_rendezvous;
}

namespace baton::detail {

/// Memory of one rank that its kernels write and the host reads: at most one stuck record, an abort word, and what waits tell.
struct report_memory {
  stuck_record* record_host = nullptr;    // the host's address
  stuck_record* record_device = nullptr;  // the same memory as the kernels see it
  std::uint32_t* abort_device = nullptr;  // device memory
  wait_log* log_device = nullptr;         // device memory
};

/// From when on waits count, and what had been counted by then.
struct wait_baseline {
  std::mutex mutex;
  std::vector<peer_wait> before;
  std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
};

/// What is called before a stuck record is read, which may learn more about it.
class stuck_questions {
 public:
  void add(const void* whose, std::function<void()> question) {
    const std::lock_guard lock{mutex_};
    all_.emplace_back(whose, std::move(question));
  }
  void remove(const void* whose) {
    const std::lock_guard lock{mutex_};
    std::erase_if(all_, [&](const auto& of) { return of.first == whose; });
  }
  /// What cannot be asked is not worth more than what is known already.
  void ask() {
    const std::lock_guard lock{mutex_};
    for (const auto& [whose, question] : all_) try {
        question();
      } catch (const error&) {
      }
  }

 private:
  std::mutex mutex_;
  std::vector<std::pair<const void*, std::function<void()>>> all_;
};

/// How often work of a rank was not seen through: a wait gave up or an exception ended it, or a communicator with ranks beyond
/// the p2p group was destroyed within a round.
struct lost_work {
  int times, rounds_left;
  friend bool operator==(const lost_work&, const lost_work&) = default;
};

class world_state {
 public:
  world_state() = default;
  world_state(const world_state&) = delete;
  world_state& operator=(const world_state&) = delete;
  ~world_state();  // kernels that are queued still report to `owned`

  int rank = 0;
  int size = 1;
  device_kind device = device_kind::cpu;
  int device_index = 0;
  int ranks_on_device = 1;  // more than one: they share its SMs equally
  std::vector<int> hosts;   // of each rank, numbered in order of ranks
  bool is_of_one_machine = true;
  bool in_process = false;  // all ranks live in this process: pointers can be exchanged as they are
  std::chrono::milliseconds deadline{30'000};
  all_gather_fn all_gather;
  std::shared_ptr<sim::machine> machine;  // the CPU's; shared by the ranks of world::local
  report_memory reports;
  mutable wait_baseline counted_from;
  stuck_questions asked_when_stuck;
  int times_lost =
      0;  // work of this rank; what was made before is of no use: its kernels may have done nothing
  int rounds_left = 0;          // other communicators are as good as before
  std::shared_ptr<void> owned;  // whatever keeps `reports` alive
  std::vector<int> devices;     // CUDA, in_process: the ordinal of every rank's device
  std::shared_ptr<bootstrap::thread_rendezvous> rendezvous;  // of world::local

  /// Drops what this rank has queued on the CPU; on CUDA it cannot be taken back.
  void abandon_work();

  lost_work lost() const { return {times_lost, rounds_left}; }

  /// This rank among the others, for collective steps of creation.
  bootstrap::group peers() const { return {rank, size, all_gather, deadline}; }

  /// `slot`: as in wait_limits.
  wait_limits limits(int slot = -1) const {
    return {static_cast<std::uint64_t>(deadline.count()) * 1'000'000u, reports.abort_device,
            reports.record_device, reports.log_device, slot};
  }
};

}  // namespace baton::detail

namespace baton {

/// What the rank's waits have told by now, read beside whatever its kernels do.
std::unique_ptr<const wait_log> read_wait_log(const detail::world_state& state);

/// Copies to the host beside whatever the rank's kernels do, from any thread; on the CPU while no warp runs.
void read_beside_kernels(const detail::world_state& state, void* to, const void* from, std::size_t bytes);

/// Forgets what waits that gave up were for: they have left their records as they were. Those of waits that last come again.
void forget_waits(const detail::world_state& state);

/// SMs a kernel of this rank may use: the device's, divided by the ranks that share it; 2 on the CPU.
int sms_of(const world& world);
/// Those that work may have that asked for `num_sms`, 0: for all.
int sms_for(const world& world, int num_sms);

/// Waits for what this rank enqueued on any stream: on CUDA for all work of its device. @throws as world::synchronize
void synchronize_all(const world& world);

}  // namespace baton
