#pragma once
// One measured combination of the benchmark, and how it is told.
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "cli/bench/ep_session.hpp"

namespace baton::cli {

/// All samples of one time, first warm-up excluded.
struct ep_timing {
  std::vector<std::vector<double>> samples_us;  // [repeat][rank]

  bool empty() const { return samples_us.empty(); }
  /// The median over repeats of each rank; the slowest rank's; the median distance from it of its samples.
  std::vector<double> median_of_ranks() const;
  double median_us() const;
  double mad_us() const;
  /// The 99th percentile over repeats (nearest rank) of the rank where it is largest.
  double p99_us() const;
};

/// What all points of a run share.
struct ep_run {
  std::string device;  // "cpu" or "cuda"
  std::string why_not_cuda, why_not_fused, gpu;
  int driver = 0;  // CUDA version it supports, 13000 for 13.0
  int ranks = 0;
  std::string push_method, why_no_push;
  std::optional<double> push_gb_per_s;  // the slowest rank's egress, all pushing at once
  ep_timing floor;                      // of a round that carries a flag; none on the CPU
  std::string nccl_version, why_no_nccl;
  std::string date;
};

/// The times of one form of a round.
struct ep_form_times {
  std::vector<ep_timing> steps;  // in the order of steps_of(form)
  ep_timing round, replay;       // microseconds a round
};

struct ep_point {
  ep_config config;
  ep_forms forms;
  int repeats = 0;
  int rounds = 1;  // timed together
  int input_sets = 0;
  std::uint64_t seed = 0;
  std::optional<ep_traffic> moved;  // of the first set of inputs
  comparison verified;
  ep_form_times split, fused;   // fused: empty where ranks share a GPU
  ep_timing dispatch, combine;  // split: async and wait of one round
  ep_timing nccl_dispatch, nccl_combine;
  wait_matrix waits;  // while it was timed; beginning and end of what is timed together count too

  bool is_right() const { return verified.values > 0 && verified.wrong == 0; }
  /// Of the fused call where it was measured.
  const ep_timing& dispatch_time() const { return fused.steps.empty() ? dispatch : fused.steps[0]; }
  const ep_timing& combine_time() const { return fused.steps.empty() ? combine : fused.steps[1]; }
  const ep_form_times& best_form() const { return fused.steps.empty() ? split : fused; }
};

/// The least that a round of this point can take: the floor, and the bytes of the busiest rank at the push bandwidth.
std::optional<double> limit_us(const ep_run& run, const ep_point& point);

nlohmann::json to_json(const ep_run& run, const ep_point& point);
/// A point that the layout does not serve.
nlohmann::json skipped_json(const ep_run& run, const ep_point& point, const std::string& reason);
void print_header(const ep_run& run, const ep_config& config, const ep_forms& forms, std::ostream& out);
void print_row(const ep_run& run, const ep_point& point, std::ostream& out);
void print_skipped(const ep_point& point, const std::string& reason, std::ostream& out);

}  // namespace baton::cli
