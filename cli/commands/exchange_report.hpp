#pragma once
// What generate and moe say about their exchange.
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

#include "cli/exchange_settings.hpp"
#include "cli/view/terminal.hpp"

namespace baton::cli {

/// The checkpoint in a line: "tiny-moe: 3 layers, hidden 256, 64 experts, top-8, 19.4 MiB".
std::string describe(const model::checkpoint& weights);

/// Where and how the experts run: "4 ranks on the CPU, bf16 weights, bf16 dispatch, epoch arrival" or "..., layout per_rank";
/// where CUDA was wanted and not had, a second line says why.
std::string describe(const open_exchange& exchange, const exchange_settings& settings);

/// The settings and statistics for machines.
nlohmann::json settings_json(const open_exchange& exchange, const exchange_settings& settings);
nlohmann::json statistics_json(const exchange_statistics& statistics);

/// Load of ranks and experts, and bytes moved.
void print_exchange(const exchange_statistics& statistics, const style& marks, std::ostream& out);

}  // namespace baton::cli
