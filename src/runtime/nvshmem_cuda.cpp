#include "runtime/nvshmem.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <mutex>
#include <vector>

#include "baton/error.hpp"
#include "bootstrap/group.hpp"
#include "runtime/device_guard_cuda.hpp"
#include "runtime/error_cuda.hpp"
#include "runtime/nvshmem_library.hpp"
#include "runtime/on_cuda.hpp"
#include "runtime/stuck_report.hpp"
#include "runtime/symmetric_heap.hpp"
#include "runtime/world_state.hpp"

namespace baton {
namespace {

/// @throws unsupported  with what the loader says, and what to do
opened_library open(const std::vector<std::string>& places, int flags) {
  opened_library library = open_first(places, flags);
  if (library.handle != nullptr) return library;
  throw unsupported{
      fmt::format("p2p_group_size: ranks beyond the group need NVSHMEM on GPUs, and {} cannot be opened: {}. "
                  "Install it, no older than what {} was built with, by `pip install nvidia-nvshmem-cu13`, "
                  "and set BATON_NVSHMEM to its folder nvidia/nvshmem in site-packages, and "
                  "BATON_NVSHMEM_MODULE to the path of {}, which is installed by a baton that was "
                  "configured where NVSHMEM is; `baton doctor` says what it finds",
                  library.path, library.problem, nvshmem_module_name, nvshmem_module_name)};
}

[[noreturn]] void refuse_other_build(const std::string& path) {
  throw unsupported{fmt::format("{} is of another build of baton; build both together", path)};
}

/// NVSHMEM's own library first, by its path: the module then finds it by its name.
const nvshmem_calls& open_module() {
  const nvshmem_places at = places_of_nvshmem();
  open(at.host_library, RTLD_NOW | RTLD_GLOBAL);
  const opened_library module = open(at.module, RTLD_NOW | RTLD_LOCAL);
  if (const nvshmem_calls* calls = calls_of(module.handle); calls != nullptr) return *calls;
  refuse_other_build(module.path);
}

/// What this process has joined; NVSHMEM has one set of ranks in a process.
struct joined_ranks {
  std::mutex mutex;
  const nvshmem_calls* calls = nullptr;
  int rank = 0, size = 0;
  nvshmem_id id{};  // of the set
};
joined_ranks& joined() {
  static joined_ranks of_process;
  return of_process;
}

void require_own_process(const world& w) {
  if (w.state().in_process && w.size() > 1)
    throw unsupported{fmt::format(
        "p2p_group_size: ranks beyond the group need a process for each GPU, and the {} ranks "
        "share one; start them with torchrun or mpirun and use world::from_environment or world::create",
        w.size())};
}

void require_joinable(const world& w) {
  const joined_ranks& now = joined();
  if (now.calls != nullptr && (now.rank != w.rank() || now.size != w.size()))
    throw unsupported{fmt::format(
        "p2p_group_size: this process is rank {} of {} in NVSHMEM already, and cannot be rank {} of {} too",
        now.rank, now.size, w.rank(), w.size())};
}

void succeed(int status, const char* doing) {
  if (status != 0) throw error{fmt::format("NVSHMEM: {} failed with status {}", doing, status)};
}

/// The module, which this process has joined as its rank of the world. Collective.
const nvshmem_calls& nvshmem_of(const world& w) {
  require_own_process(w);  // of all or none
  joined_ranks& now = joined();
  const std::lock_guard lock{now.mutex};
  const bootstrap::group g = w.state().peers();
  require_one_set(bootstrap::gather(g, now.id));
  const nvshmem_calls* calls = now.calls;
  nvshmem_id id{};
  bootstrap::together(g, [&] {
    require_joinable(w);
    if (calls != nullptr) return;
    const device_guard on{w.device_index()};
    calls = &open_module();
    if (w.rank() == 0) succeed(calls->make_id(id.data()), "making an id of its ranks");
  });
  if (now.calls != nullptr) return *now.calls;
  id = bootstrap::gather(g, id).front();
  bootstrap::together(g, [&] {
    const device_guard on{w.device_index()};
    succeed(calls->join(w.rank(), w.size(), id.data()), "joining its ranks");
  });
  now.calls = calls;
  now.rank = w.rank();
  now.size = w.size();
  now.id = id;
  return *calls;
}

symmetric_heap& heap() {
  static symmetric_heap of_process;
  return of_process;
}

/// Collective. The first block that is large enough and that all ranks have done with; null: none.
std::byte* free_block(const bootstrap::group& g, std::size_t bytes) {
  std::uint64_t all = heap().free_blocks(bytes);
  for (const std::uint64_t other : bootstrap::gather(g, all)) all &= other;
  return heap().first_of(all);
}

[[noreturn]] void refuse_memory(const world& w, std::size_t bytes, const memory_use& use) {
  throw out_of_memory{
      fmt::format("{} on rank {}, in NVSHMEM's symmetric heap, which grows while the GPU has memory, up to "
                  "NVSHMEM_MAX_MEMORY_PER_GPU: {}; where NVSHMEM_DISABLE_CUDA_VMM is set, raise "
                  "NVSHMEM_SYMMETRIC_SIZE",
                  use.purpose, w.rank(), use.knob),
      bytes, on_cuda::free_bytes(w.device_index())};
}

/// Whether NVSHMEM's heap has room for so much, or can grow for it on all ranks of this GPU, or is not of the kind that does. It
/// is asked for on all ranks before any of them allocates: allocating is a meeting of NVSHMEM's without a deadline, and who finds
/// no memory then leaves the others waiting, and its own heap in pieces (3.4.5).
bool has_room(const world& w, std::size_t bytes) {
  return !nvshmem_heap_grows() ||
         on_cuda::free_bytes(w.device_index()) / static_cast<std::size_t>(w.state().ranks_on_device) >=
             heap().growth_for(bytes);
}

class window_beyond final : public symmetric_window {
 public:
  window_beyond(const world& w, std::size_t bytes, int group, const memory_use& use)
      : world_{w}, calls_{nvshmem_of(w)}, bytes_{bytes}, group_{group}, lost_before_{w.state().lost()} {
    const bootstrap::group g = w.state().peers();
    std::byte* const again = free_block(g, bytes);
    bootstrap::together(g, [&] {
      if (again == nullptr && !has_room(w, bytes)) refuse_memory(w, bytes, use);
    });
    bootstrap::together(g, [&] {
      const device_guard on{w.device_index()};
      own_ = again != nullptr ? again : static_cast<std::byte*>(calls_.allocate(bytes));
      if (own_ == nullptr) refuse_memory(w, bytes, use);
    });
    heap().take(own_, bytes);
    try {
      bootstrap::together(g, [&] {
        const device_guard on{w.device_index()};
        on_cuda::fill_now(w.device_index(), own_, 0, bytes);
        for (int r = 0; r < w.size(); ++r) require_reach(r);
      });
    } catch (...) {
      heap().leave(own_, true);  // nothing was put there
      throw;
    }
  }
  ~window_beyond() override {
    on_cuda::drain(world_.state());
    heap().leave(own_, is_all_done_since(world_.state(), lost_before_));
  }

  std::byte* peer(int rank) const override {
    return is_near(rank) ? static_cast<std::byte*>(calls_.of_rank(own_, rank)) : own_;
  }
  std::size_t bytes() const override { return bytes_; }
  void require_releasable() const override {
    throw unsupported{
        "release: with ranks beyond the p2p group a communicator's memory is of NVSHMEM's symmetric heap, "
        "which cannot go and come back to its addresses; destroy the communicator"};
  }
  void release() override { require_releasable(); }
  void reacquire() override { require_releasable(); }
  void drop() noexcept override {}

 private:
  bool is_near(int rank) const { return rank / group_ == world_.rank() / group_; }
  void require_reach(int rank) const {
    if (is_near(rank) && calls_.of_rank(own_, rank) == nullptr)
      throw unsupported{
          fmt::format("p2p_group_size: ranks {} and {} are in one group, but their GPUs do not reach each "
                      "other's memory; lower it",
                      world_.rank(), rank)};
  }

  world world_;
  const nvshmem_calls& calls_;
  std::size_t bytes_;
  int group_;
  detail::lost_work lost_before_;
  std::byte* own_ = nullptr;
};

}  // namespace

std::unique_ptr<symmetric_window> make_window_beyond(const world& w, std::size_t bytes, int p2p_group_size,
                                                     const std::string& purpose, const std::string& knob) {
  return std::make_unique<window_beyond>(w, bytes, p2p_group_size, memory_use{purpose, knob});
}

void launch_beyond(const world& w, const nvshmem_launch& l) {
  if (l.grid.only_loads) return;  // its first launch brings the code
  const device_guard on{w.device_index()};
  const int status = joined().calls->launch(l);
  if (status == nvshmem_of_another_build) refuse_other_build(nvshmem_module_name);
  check(static_cast<cudaError_t>(status), "launching a kernel that puts");
}

}  // namespace baton
