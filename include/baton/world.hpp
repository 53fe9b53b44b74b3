#pragma once
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "baton/wait_times.hpp"

namespace baton {

enum class device_kind { cpu, cuda };

/// BATON_DEVICE if it says cpu or cuda; else cuda if the build has CUDA and a GPU here can run its kernels.
/// @throws invalid_argument  BATON_DEVICE is something else than auto, cpu, cuda
device_kind auto_device();

/// A stream of the caller: a `cudaStream_t` on CUDA (null: the legacy default stream). On the CPU any pointer that is not
/// null names a queue of the rank, made when it is first used, and null another one: `int copies; stream_ref s{&copies};`.
///
/// Work of one stream runs in order. Different streams of a rank run side by side, on the CPU too, where null is ordered with
/// the others no more than a non-blocking stream is: what has to come later needs world::chain or world::synchronize.
///
/// Memory that work was given has to live until the stream has been synchronised. The library sees to its own: the CPU
/// frees it behind what is queued, CUDA waits for the device.
struct stream_ref {
  void* native = nullptr;
};

/// Collects `bytes` bytes from every rank: rank r's bytes land at `all + r * bytes` on every rank. Called by
/// every rank the same number of times with the same sizes, only while objects are created, and while a communicator's memory
/// is released or reacquired.
using all_gather_fn = std::function<void(const void* mine, void* all, std::size_t bytes)>;

struct world_config {
  int rank = 0;
  int size = 1;
  device_kind device = device_kind::cpu;
  int device_index = -1;     // CUDA ordinal; -1: local_rank modulo the number of devices
  int local_rank = -1;       // -1: rank
  all_gather_fn all_gather;  // may be empty when size is 1
  /// Of every wait, the same on all ranks; 0: none. BATON_DEADLINE_MS overrides. Time in which a CPU rank's process stood still,
  /// as in a debugger, does not count.
  std::chrono::milliseconds deadline{30'000};
};

namespace detail {
class world_state;
}

/// The ranks that work together, and this rank's device. A cheap handle; copies share the state.
///
/// Ranks are threads of one process or processes of one machine; on CUDA also of several machines, where communicators with
/// p2p groups are all that ranks of different ones can share. Creation is collective, and what says so; nothing else is.
class world {
 public:
  /// Joins with the ranks that `config.all_gather` reaches. Collective.
  /// @throws invalid_argument  rank or size out of range, or size > 1 without all_gather
  /// @throws transport_error   the ranks disagree about size or device kind
  /// @throws transport_error   ranks of the CPU are on different machines
  /// @throws unsupported       no such device, or two ranks' devices lack peer access (names the pair)
  static world create(world_config config);

  /// Joins as torchrun or a similar launcher says: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_PORT. Processes of
  /// one machine only; they meet at a Unix socket named after MASTER_PORT and TORCHELASTIC_RUN_ID, which rank 0
  /// keeps as long as its world lives. Ranks of one job have the same BATON_JOB if it is set, or were started by
  /// one process; those of another job are refused. Collective.
  /// @throws invalid_argument  a variable is missing or no number; else as create()
  /// @throws transport_error   ranks did not come in time, came twice, or another job uses the name
  static world from_environment(device_kind device);

  /// All ranks in this process; the caller may drive them from one thread or one thread each. On the CPU they
  /// share one machine model whose schedule is deterministic. On CUDA rank r uses device r modulo the number
  /// of devices.
  static std::vector<world> local(int size, device_kind device);

  int rank() const;
  int size() const;
  device_kind device() const;
  int device_index() const;
  std::chrono::milliseconds deadline() const;
  /// Of each rank, the number of its host, counted in order of ranks: 0 0 1 1. A host is a machine, or what BATON_HOST calls so.
  const std::vector<int>& hosts() const;

  /// Waits until everything this rank enqueued on `stream` is done. On the CPU this is where the work runs.
  /// @throws stuck  a wait of this rank outlived its deadline
  ///
  /// On the CPU also what the work itself throws, such as std::bad_alloc. All ranks of the process then lose what they
  /// had queued, each is told by its next synchronize, and communicators are lost as after stuck.
  void synchronize(stream_ref stream = {}) const;

  /// What this rank enqueues on `later` from now on starts after what it has enqueued on `earlier`. Capturable.
  void chain(stream_ref earlier, stream_ref later) const;

  /// How long this rank has waited for each peer, in all its rounds: what is slow shows in who is waited for. matrix_of() puts
  /// ranks together. Waits that were over at once are not counted: on a GPU those of up to eight looks, some 3 us. Of waits for
  /// several peers at once the time goes to the one that was last.
  ///
  /// May be called by any thread at any time, also while kernels hang; waits for no stream. On the CPU it waits until whoever
  /// runs work has nothing to do. Cost: copies 70 KB from the device; rounds pay for what they wait, not for being counted.
  peer_waits wait_times() const;
  /// Counts from 0 again, for wait_times() alone; of waits that are not over, all of their time.
  void reset_wait_times() const;

  /// What `config.all_gather` does, for the library's own objects and for tests.
  void all_gather(const void* mine, void* all, std::size_t bytes) const;

  /// For the library's own layers.
  detail::world_state& state() const;
  explicit world(std::shared_ptr<detail::world_state> state) : state_{std::move(state)} {}

 private:
  std::shared_ptr<detail::world_state> state_;
};

/// Collective work on all ranks of world::local from one thread: calls `work(rank)` for every rank, each in a thread of its
/// own, and returns when all are done. If some throw, the others' collective calls end at once, and the error of the
/// lowest rank that failed by itself is thrown. The worlds stay usable.
/// @throws invalid_argument  `worlds` are not all the ranks of one world::local, in order
/// @throws unsupported       the machine starts no more threads
void on_every_rank(std::span<const world> worlds, const std::function<void(int)>& work);

}  // namespace baton
