#include "cli/view/bars.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace baton::cli {
namespace {

// Index: filled eighths.
constexpr const char* left_blocks[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};
constexpr const char* lower_blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

/// Eighths of `cells` cells that value / full fills; a value above zero fills at least one.
int eighths(double value, double full, int cells) {
  if (!(full > 0) || !(value > 0)) return 0;
  const int filled = static_cast<int>(std::lround(std::min(value / full, 1.0) * 8 * cells));
  return std::max(filled, 1);
}

}  // namespace

std::string bar(double value, double full, int width) {
  const int filled = eighths(value, full, width);
  std::string out;
  for (int i = 0; i < filled / 8; ++i) out += left_blocks[8];
  out += left_blocks[filled % 8];
  const int used = filled / 8 + (filled % 8 != 0);
  return out + std::string(static_cast<std::size_t>(width - used), ' ');
}

std::vector<int> share_columns(std::span<const share> shares, int width) {
  double total = 0;
  for (const share& s : shares) total += s.value;
  std::vector<int> widths(shares.size(), 0);
  if (!(total > 0)) return widths;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (shares[i].value <= 0) continue;
    widths[i] = std::max(1, static_cast<int>(std::lround(shares[i].value / total * width)));
  }
  // Rounding may miss the width by a few columns: the widest share gives or takes them.
  const int sum = std::accumulate(widths.begin(), widths.end(), 0);
  *std::max_element(widths.begin(), widths.end()) += width - sum;
  return widths;
}

std::vector<std::string> columns_chart(std::span<const std::uint64_t> values, std::uint64_t peak, int height,
                                       std::span<const int> groups) {
  std::vector<std::string> rows(static_cast<std::size_t>(height));
  for (int row = 0; row < height; ++row) {
    const int below = 8 * (height - 1 - row);  // eighths under this row
    std::string& line = rows[static_cast<std::size_t>(row)];
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool starts = std::find(groups.begin(), groups.end(), static_cast<int>(i)) != groups.end();
      if (starts) line += ' ';
      const int filled = eighths(static_cast<double>(values[i]), static_cast<double>(peak), height);
      const bool absent = values[i] == 0 && row == height - 1;
      line += absent ? "·" : lower_blocks[std::clamp(filled - below, 0, 8)];
    }
  }
  return rows;
}

}  // namespace baton::cli
