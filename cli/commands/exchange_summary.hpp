#pragma once
// What an exchange did, for people: load of ranks and experts, bytes between ranks, time.
#include <span>
#include <string>
#include <vector>

#include "cli/exchange_statistics.hpp"
#include "cli/view/bars.hpp"
#include "cli/view/terminal.hpp"

namespace baton::cli {

/// No line is wider than this.
inline constexpr int summary_columns = 80;

/// A bar for each rank: rows it computed, its share, its experts.
std::vector<std::string> rank_load(const exchange_statistics& statistics, const style& marks);

/// A column for each expert, apart by rank. Beyond 256 experts neighbours share a column.
std::vector<std::string> expert_load(const exchange_statistics& statistics, const style& marks);

/// Bytes moved, and up to eight ranks the matrix of who sent to whom.
std::vector<std::string> bytes_moved(const exchange_statistics& statistics, const style& marks);

/// One stacked bar and its legend.
std::vector<std::string> time_shares(std::span<const share> phases, const style& marks);

}  // namespace baton::cli
