#pragma once
// A world as Python has it: its handle, what queued work still reads, and which process made it.
#include <nanobind/nanobind.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "baton/world.hpp"

namespace baton::python {

/// Arrays that queued work of CPU ranks reads or writes. Work of all ranks of a World.local may run whenever one of them
/// waits, so they share one. Touched with Python's lock held only.
class kept_arrays {
 public:
  explicit kept_arrays(int num_ranks) : of_rank_(static_cast<std::size_t>(num_ranks)) {}
  std::vector<kept_array>& of(int rank) { return of_rank_[static_cast<std::size_t>(rank)]; }

 private:
  std::vector<std::vector<kept_array>> of_rank_;
};

class py_world {
 public:
  py_world(world handle, std::shared_ptr<kept_arrays> kept)
      : handle_{std::move(handle)}, kept_{std::move(kept)} {}

  /// @throws invalid_argument  this is a fork of the process that made the world
  const world& get() const;
  bool is_cpu() const { return handle_.device() == device_kind::cpu; }

  /// CPU ranks read it when work runs. A GPU's allocators reuse memory in stream order, behind what was enqueued.
  void keep(const kept_array& used) const {
    if (used.is_valid() && is_cpu()) kept_->of(handle_.rank()).push_back(used);
  }
  /// Waits without Python's lock; what the rank's work was given is let go.
  /// @throws stuck  as world::synchronize
  void synchronize(stream_ref stream) const;
  /// Arrays are to be read when a call returns, so a call that waits does wait on CPU ranks. GPUs go in stream order.
  void finish_on_cpu(stream_ref stream) const {
    if (is_cpu()) synchronize(stream);
  }
  /// @throws invalid_argument  CPU ranks have no streams in Python; as get()
  stream_ref stream_of(std::uintptr_t handle) const;

 private:
  world handle_;
  std::shared_ptr<kept_arrays> kept_;
  pid_t made_by_ = current_process();
  int made_after_ = num_forks();

  static pid_t current_process();
  static int
  num_forks();  // between the first process and this one, since the first world; getpid() is a system call
};

void bind_errors(nb::module_& module);
void bind_world(nb::module_& module);
void bind_communicator(nb::module_& module);
void bind_products(nb::module_& module);
void bind_padded(nb::module_& module);
void bind_attention(nb::module_& module);

/// The work of `enqueue`, which is given `used`, and on CPU ranks its end.
/// @throws invalid_argument  some of `used` is written and not apart from the others
template <class Enqueue>
void run(const py_world& rank, const std::vector<kept_array>& used, stream_ref stream, Enqueue enqueue) {
  require_apart(used);
  {
    const nb::gil_scoped_release without_lock;
    enqueue();
  }
  for (const kept_array& one : used) rank.keep(one);
  rank.finish_on_cpu(stream);
}

/// An extent as the library takes it, which refuses less than the most that this gives, with the argument's name.
inline int small(std::int64_t extent) {
  constexpr std::int64_t most = 1 << 30;
  return static_cast<int>(extent < most ? extent : most);
}

/// Scratch begins at multiples of it; allocators of frameworks promise less.
inline constexpr std::size_t scratch_alignment = 256;
void* aligned(void* at);

}  // namespace baton::python
