#pragma once
// The points that the options of `baton bench ep` span.
#include <string>
#include <vector>

#include "cli/commands/bench_ep.hpp"

namespace baton::cli {

struct wanted_point {
  ep_config config;
  ep_rounds given;
  std::string why_not;        // not empty: it is left out
  bool begins_sizes = false;  // of other sizes or another routing than the one before
};

/// All of them, what is printed under one heading together.
/// @throws invalid_argument  a combination that no layout serves, or nothing is left to measure
std::vector<wanted_point> all_points(const bench_ep_options& o, device_kind device,
                                     const recorded_routing* recorded);

}  // namespace baton::cli
