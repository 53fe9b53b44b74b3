#pragma once
// Pictures of load made of Unicode block characters.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace baton::cli {

/// A horizontal bar of value / full, `width` columns wide, to an eighth of a column.
std::string bar(double value, double full, int width);

/// One segment of a stacked bar.
struct share {
  std::string name;
  double value = 0;
};

/// Columns for each share of `width` columns: they sum to `width` (0 if all shares are 0), and a share above
/// zero gets at least one.
std::vector<int> share_columns(std::span<const share> shares, int width);

/// Vertical bars, one column a value, `height` rows high at `peak`, top row first. Values of zero show as a dot in
/// the last row. `groups` lists the indices that have a space before them.
std::vector<std::string> columns_chart(std::span<const std::uint64_t> values, std::uint64_t peak, int height,
                                       std::span<const int> groups);

}  // namespace baton::cli
