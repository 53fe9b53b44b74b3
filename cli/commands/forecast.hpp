#pragma once
// `baton forecast`: what rounds of the exchange cost on ranks that are not there.
#include <cstdint>
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "baton/expert_parallel.hpp"
#include "cli/bench/ep_routing.hpp"
#include "forecast/question.hpp"

namespace baton::cli {

/// A point for each combination of what has several values.
struct forecast_options {
  std::vector<int> ranks{8, 64, 256, 1024};
  std::vector<int> group_sizes{8};  // of more ranks than there are: all of them; 0: all
  std::vector<int> tokens{128};
  std::vector<int> hidden{7168};
  std::vector<ep_layout> layouts{ep_layout::per_rank};
  std::vector<ep_routing> routings{ep_routing::uniform};
  std::vector<ep_levels> levels{ep_levels::one, ep_levels::two};
  int top_k = 8;
  int experts = 0;  // 0: 256, or as many as ranks where that is more
  token_format format = token_format::bf16, combine_format = token_format::bf16;
  ep_transfer transfer = ep_transfer::automatic;
  ep_rows rows = ep_rows::by_expert;
  forecast::link_facts links;
  std::uint64_t seed = 1;
  std::filesystem::path
      measured;  // not empty: what `baton bench ep` or `groups` measured, and nothing of the above but links
  bool json = false;      // `out` gets JSON, one object a line, and no table
  std::string json_path;  // if not empty, this file gets the JSON as well
};

/// Forecasts every point, or what was measured beside it. All points are looked at before the first is forecast.
/// Returns exit_code::ok.
/// @throws invalid_argument  a point that there is not, by the option that says so; bad_file  of `measured`
int run_forecast(const forecast_options& options, std::ostream& out);

}  // namespace baton::cli
