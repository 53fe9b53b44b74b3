#pragma once
// The points of the benchmark as whoever runs it sees them.
#include <ostream>
#include <string>

#include "cli/bench/ep_point.hpp"

namespace baton::cli {

/// What holds for all points.
void print_header(const ep_run& run, const ep_config& config, const ep_forms& forms, std::ostream& out);
/// What the sizes and the routing of the next rows are: "hidden 7168, top-8 of 256 experts, uniform routing".
void print_sizes(const ep_point& point, std::ostream& out);
void print_row(const ep_run& run, const ep_point& point, std::ostream& out);
void print_skipped(const ep_run& run, const ep_point& point, const std::string& reason, std::ostream& out);

}  // namespace baton::cli
