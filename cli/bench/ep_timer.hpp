#pragma once
// Times of one round on every rank. On CUDA every rank's stream is held at a gate while its round is enqueued;
// then all start together, and events on the device measure: no host launch is inside a time.
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "cli/bench/ep_session.hpp"

namespace baton::cli {

/// Microseconds.
using step_times = std::array<double, 4>;

class ep_timer {
 public:
  virtual ~ep_timer() = default;
  /// Each step of each rank: events between the steps.
  virtual std::vector<step_times> time_steps(int set) = 0;
  /// The whole round of each rank, nothing between the steps.
  virtual std::vector<double> time_round(int set) = 0;
  /// The same, replayed from a CUDA graph. None on the CPU.
  virtual std::optional<std::vector<double>> time_replay(int set) = 0;
};

/// The session must outlive the timer.
std::unique_ptr<ep_timer> make_timer(ep_session& session);

/// On the CPU all ranks run on one machine model: each rank gets the host's time for all of them.
std::unique_ptr<ep_timer> make_cpu_timer(ep_session& session);
/// @throws unsupported  in a build without CUDA
std::unique_ptr<ep_timer> make_cuda_timer(ep_session& session);

}  // namespace baton::cli
