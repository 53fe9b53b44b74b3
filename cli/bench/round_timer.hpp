#pragma once
// Times of rounds where each rank is a process of its own and times itself.
#include <memory>

#include "cli/bench/work_timer.hpp"

namespace baton::cli {

/// Behind rounds in which the ranks meet, which are not timed.
class round_timer {
 public:
  virtual ~round_timer() = default;
  /// Microseconds a round of this rank, `rounds` of them one behind the other. All ranks have to call it alike. On CUDA nothing
  /// of them starts before all are enqueued, and events on the device measure; what is timed must have run before.
  virtual double time(int rounds, const work& round) = 0;
};
std::unique_ptr<round_timer> make_round_timer(const world& own);
/// @throws unsupported  in a build without CUDA
std::unique_ptr<round_timer> make_cuda_round_timer(const world& own);

}  // namespace baton::cli
