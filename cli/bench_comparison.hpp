#pragma once
// Two files of `baton bench ep --json-file`: what changed beyond the spread of the samples.
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "cli/bench/ep_point.hpp"

namespace baton::cli {

/// Points by their axes ("128 tokens, fp8, per_rank, ..."), and of each the times by their place in its JSON
/// ("fused.round_trip_graph"). Several runs in one file count as one with all their samples.
using measured_points = std::map<std::string, std::map<std::string, ep_timing>>;

/// @throws bad_file  not lines of baton.bench.ep/2
measured_points parse_points(const std::string& text, const std::string& label);
measured_points read_points(const std::filesystem::path& file);

/// A time that both have.
struct time_change {
  std::string point, time;
  double old_us = 0, new_us = 0;
  /// Three times the standard deviation of one sample of either, estimated from their median absolute deviations, and at
  /// least 1 % of the old time.
  double spread_us = 0;
  bool is_beyond_spread() const { return new_us > old_us + spread_us || new_us < old_us - spread_us; }
  bool is_slower() const { return is_beyond_spread() && new_us > old_us; }
};

struct bench_comparison {
  std::vector<time_change> times;
  std::vector<std::string> only_in_old, only_in_new;  // points
};
bench_comparison compare_points(const measured_points& before, const measured_points& after);

}  // namespace baton::cli
