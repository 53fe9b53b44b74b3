#pragma once
// Times of rounds on every rank. On CUDA every rank's stream is held at a gate while its rounds are enqueued; then all start,
// and what is timed begins behind rounds that are not: these bring the ranks together, closer than any gate of the
// host could. Events on the device measure: no host launch is inside a time.
#include <memory>
#include <optional>
#include <vector>

#include "cli/bench/ep_session.hpp"

namespace baton::cli {

/// Rounds before those that are timed.
inline constexpr int gathering_rounds = 2;

class ep_timer {
 public:
  virtual ~ep_timer() = default;
  /// Microseconds of each step of one round: [rank][step], events between the steps.
  virtual std::vector<std::vector<double>> time_steps(ep_form form, int set) = 0;
  /// Microseconds a round, of each rank: `rounds` of them one behind the other, inputs in turn, nothing between them.
  virtual std::vector<double> time_rounds(ep_form form, int rounds) = 0;
  /// The same, all rounds of a rank captured in one CUDA graph. None on the CPU.
  virtual std::optional<std::vector<double>> time_replay(ep_form form, int rounds) = 0;
};

/// A step's of each rank, of what time_steps gave.
std::vector<double> of_step(const std::vector<std::vector<double>>& times, std::size_t step);

/// The session must outlive the timer.
std::unique_ptr<ep_timer> make_timer(ep_session& session);

/// On the CPU all ranks run on one machine model: each rank gets the host's time for all of them.
std::unique_ptr<ep_timer> make_cpu_timer(ep_session& session);
/// @throws unsupported  in a build without CUDA
std::unique_ptr<ep_timer> make_cuda_timer(ep_session& session);

}  // namespace baton::cli
