#pragma once
// One measured combination of the benchmark, and how it is told.
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "cli/bench/ep_inputs.hpp"

namespace baton::cli {

/// All samples of one time, first warm-up excluded.
struct ep_timing {
  std::vector<std::vector<double>> samples_us;  // [repeat][rank]

  bool empty() const { return samples_us.empty(); }
  /// The median over repeats of each rank; the slowest rank's; the median distance from it of its samples.
  std::vector<double> median_of_ranks() const;
  double median_us() const;
  double mad_us() const;
};

/// What all points of a run share.
struct ep_run {
  std::string device;  // "cpu" or "cuda"
  std::string why_not_cuda, gpu;
  int driver = 0;  // CUDA version it supports, 13000 for 13.0
  int ranks = 0;
  std::string push_method, why_no_push;
  std::optional<double> push_gb_per_s;  // the slowest rank's egress, all pushing at once
  std::string nccl_version, why_no_nccl;
  std::string date;
};

struct ep_point {
  ep_config config;
  int repeats = 0;
  int input_sets = 0;
  std::uint64_t seed = 0;
  traffic moved;  // of the first set of inputs
  comparison verified;
  ep_timing steps[4];
  ep_timing dispatch, combine;  // async and wait of one round
  ep_timing round, replay;
  ep_timing nccl_dispatch, nccl_combine;

  bool is_right() const { return verified.values > 0 && verified.wrong == 0; }
  std::uint64_t dispatch_wire_bytes() const { return moved.most_rows_out() * moved.message_bytes; }
  std::uint64_t combine_wire_bytes() const { return moved.most_replies_out() * moved.combine_row_bytes; }
};

nlohmann::json to_json(const ep_run& run, const ep_point& point);
void print_header(const ep_run& run, const ep_config& config, std::ostream& out);
void print_row(const ep_run& run, const ep_point& point, std::ostream& out);

}  // namespace baton::cli
