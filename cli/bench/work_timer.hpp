#pragma once
// How long the work of one rank takes.
#include <functional>
#include <memory>

#include "baton/world.hpp"

namespace baton::cli {

/// Puts work on a stream.
using work = std::function<void(stream_ref)>;

/// Microseconds of one run: between events on the device on CUDA, by the host's clock on the CPU.
class work_timer {
 public:
  virtual ~work_timer() = default;
  virtual double time(const work& run) = 0;
  /// Runs it once and waits. On CUDA what is timed must have run before: time() holds the stream while it is filled, and
  /// a kernel's first launch loads its code, which waits for every stream.
  virtual void warm(const work& run) = 0;
};
std::unique_ptr<work_timer> make_work_timer(const world& world);
/// @throws unsupported  in a build without CUDA
std::unique_ptr<work_timer> make_cuda_work_timer(const world& world);

}  // namespace baton::cli
