#pragma once
// A round whose time is forecast: the question, and who chooses experts.
#include <cstdint>
#include <string>

#include "cli/bench/ep_routing.hpp"
#include "forecast/forecast.hpp"

namespace baton::cli {

struct forecast_case {
  forecast::question asked;
  ep_routing routing = ep_routing::uniform;  // not trace
  std::uint64_t seed = 1;
};

/// Whether kernels can run such a round, given so many GPUs: if not, the forecast is of kernels that nobody has written.
bool has_kernels(const forecast::question& asked);

/// "", or how tokens travel within a group: "lines", "chunks", "flags", which layout per_rank has.
std::string transfer_of(const forecast::question& asked);

/// @throws invalid_argument  no such round or routing, in the words of options
void require_served(const forecast_case& c);

/// Ranks choose as those of `baton bench ep` do, each by random numbers of its own.
forecast::round_forecast forecast_of(const forecast_case& c);

}  // namespace baton::cli
