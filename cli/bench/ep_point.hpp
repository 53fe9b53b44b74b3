#pragma once
// One measured combination of the benchmark, and its JSON.
#include <nlohmann/json.hpp>
#include <optional>
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

/// Null where nothing was timed.
nlohmann::json to_json(const ep_timing& times);

/// How tokens travel: "lines", "chunks", "flags"; "": the layout's only way.
const char* transfer_name(const ep_config& config, int num_ranks);

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
  ep_config config;  // of physical experts
  ep_rounds given;
  int repeats = 0;
  int rounds = 1;                 // timed together
  std::vector<ep_traffic> moved;  // of each set of inputs
  comparison verified;
  ep_form_times split, fused;   // fused: empty where ranks share a GPU
  ep_timing dispatch, combine;  // split: async and wait of one round
  ep_timing nccl_dispatch, nccl_combine;
  wait_matrix waits;  // while it was timed; beginning and end of what is timed together count too

  int num_experts() const { return config.num_experts - given.num_replicas; }  // logical ones
  const char* layout_name() const;
  bool is_right() const { return verified.values > 0 && verified.wrong == 0; }
  /// Of the fused call where it was measured.
  const ep_timing& dispatch_time() const { return fused.steps.empty() ? dispatch : fused.steps[0]; }
  const ep_timing& combine_time() const { return fused.steps.empty() ? combine : fused.steps[1]; }
  const ep_form_times& best_form() const { return fused.steps.empty() ? split : fused; }
};

/// Bytes that the busiest rank of a round sends to others, and that the busiest one gets from them: the mean of the sets of
/// inputs, which are timed in turn.
struct ep_bytes {
  double out = 0, in = 0;
  double out_of_rows = 0;  // if it sent a message, or a reply, for each row
  double most() const { return out > in ? out : in; }
};
ep_bytes dispatch_bytes(const ep_point& point);
ep_bytes combine_bytes(const ep_point& point);
/// 0 where nothing was timed.
double gb_per_s(double bytes, double us);
/// Rows that each rank gets in a round, likewise the mean.
std::vector<double> rows_of_ranks(const ep_point& point);

/// The least that a round of this point can take: the floor, and the bytes of the busiest rank at the push bandwidth, which is
/// taken to be what it can get, too.
std::optional<double> limit_us(const ep_run& run, const ep_point& point);

nlohmann::json to_json(const ep_run& run, const ep_point& point);
/// A point that the layout does not serve.
nlohmann::json skipped_json(const ep_run& run, const ep_point& point, const std::string& reason);

}  // namespace baton::cli
