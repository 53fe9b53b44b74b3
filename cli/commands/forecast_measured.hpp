#pragma once
// Measured rounds beside their forecasts.
#include <filesystem>
#include <string>
#include <vector>

#include "cli/commands/bench_report.hpp"
#include "cli/forecast_case.hpp"

namespace baton::cli {

struct measured_round {
  forecast_case of;
  double us = 0;  // a round of the slowest rank, in a graph where there is one
};

struct measured_rounds {
  std::vector<measured_round> all;
  int left_out = 0;  // of fewer SMs, replicas, recorded routing, ranks of the CPU machine, or wrong
};

/// Points of `baton bench ep --json-file` (baton.bench.ep/1 and /2) and `baton bench groups` (baton.bench.groups/1), reached by
/// such links.
/// @throws bad_file  other lines, or none that can be compared
measured_rounds parse_measured_rounds(const std::string& text, const std::string& label,
                                      const forecast::link_facts& links);
measured_rounds read_measured_rounds(const std::filesystem::path& file, const forecast::link_facts& links);

struct forecast_errors {
  double median_percent = 0, worst_percent = 0;  // of |forecast / measured - 1|
};
/// A row for each round (schema baton.forecast.measured/1), and last how far forecasts are off.
forecast_errors compare_with_forecasts(const measured_rounds& measured, bench_report& to);

}  // namespace baton::cli
