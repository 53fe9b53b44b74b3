#include "cli/commands/exchange_summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/math.hpp"
#include "cli/view/text.hpp"

namespace baton::cli {
namespace {

constexpr int experts_a_line = 64;
constexpr int max_columns_of_chart = 256;
constexpr int bar_columns = 32;

std::string plural(int count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

/// Neighbours added up so that at most max_columns_of_chart values are left; `merged` is how many went into
/// one.
std::vector<std::uint64_t> condensed(const std::vector<std::uint64_t>& rows, int& merged) {
  merged = ceil_div(static_cast<int>(rows.size()), max_columns_of_chart);
  std::vector<std::uint64_t> sums(ceil_div(rows.size(), static_cast<std::size_t>(merged)), 0);
  for (std::size_t e = 0; e < rows.size(); ++e) sums[e / static_cast<std::size_t>(merged)] += rows[e];
  return sums;
}

/// Columns of [begin, end) where the experts of another rank start, counted from `begin`.
std::vector<int> rank_starts(const exchange_statistics& statistics, int merged, int begin, int end) {
  std::vector<int> starts;
  for (int rank = 1; rank < statistics.num_ranks(); ++rank) {
    const int column = experts_of_rank(statistics.num_experts(), statistics.num_ranks(), rank).first / merged;
    const bool is_new = starts.empty() || starts.back() != column - begin;
    if (column > begin && column < end && is_new) starts.push_back(column - begin);
  }
  return starts;
}

/// With many ranks the gaps between them would not fit.
constexpr int max_gaps = 24;

}  // namespace

std::vector<std::string> rank_load(const exchange_statistics& statistics, const style& marks) {
  const std::vector<std::uint64_t> rows = statistics.rows_of_ranks();
  const auto most = static_cast<double>(*std::max_element(rows.begin(), rows.end()));
  const double all = std::max(1.0, static_cast<double>(statistics.rows()));
  std::vector<std::string> lines;
  for (int rank = 0; rank < statistics.num_ranks(); ++rank) {
    const std::uint64_t mine = rows[static_cast<std::size_t>(rank)];
    const expert_range experts = experts_of_rank(statistics.num_experts(), statistics.num_ranks(), rank);
    const std::string which = fmt::format("experts {}-{}", experts.first, experts.first + experts.count - 1);
    lines.push_back(fmt::format("  rank {:<3} {} {:>9}  {:>5.1f} %  {}", rank,
                                marks.accent(bar(static_cast<double>(mine), most, bar_columns)),
                                grouped(mine), 100.0 * static_cast<double>(mine) / all, marks.dim(which)));
  }
  return lines;
}

std::vector<std::string> expert_load(const exchange_statistics& statistics, const style& marks) {
  int merged = 1;
  const std::vector<std::uint64_t> rows = condensed(statistics.rows_of_experts(), merged);
  const int count = static_cast<int>(rows.size());
  const int height = count <= experts_a_line ? 4 : 2;
  const std::uint64_t peak = *std::max_element(rows.begin(), rows.end());
  std::vector<std::string> lines;
  for (int begin = 0; begin < count; begin += experts_a_line) {
    const int end = std::min(begin + experts_a_line, count);
    const std::span<const std::uint64_t> values{rows.data() + begin, static_cast<std::size_t>(end - begin)};
    std::vector<int> starts = rank_starts(statistics, merged, begin, end);
    if (static_cast<int>(starts.size()) > max_gaps) starts.clear();
    const std::vector<std::string> chart = columns_chart(values, peak, height, starts);
    for (int row = 0; row < height; ++row) {
      const std::string& line = chart[static_cast<std::size_t>(row)];
      const std::string label =
          row + 1 == height ? fmt::format("{:>4}", begin * merged) : std::string(4, ' ');
      const std::string last =
          row + 1 == height ? fmt::format(" {}", std::min(end * merged, statistics.num_experts()) - 1) : "";
      lines.push_back(fmt::format(" {} {}{}", marks.dim(label), marks.accent(line), marks.dim(last)));
    }
  }
  return lines;
}

std::vector<std::string> bytes_moved(const exchange_statistics& statistics, const style& marks) {
  const int ranks = statistics.num_ranks();
  const ep_traffic& moved = statistics.traffic();
  std::uint64_t dispatch = 0, combine = 0;
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to) {
      if (from == to) continue;
      dispatch += moved.dispatch_bytes(from, to);
      combine += moved.combine_bytes(from, to);
    }
  }
  std::vector<std::string> lines;
  lines.push_back(fmt::format("  in {}, within a rank: {}",
                              plural(static_cast<int>(statistics.rounds), "round"),
                              bytes_text(statistics.local_bytes())));
  lines.push_back(fmt::format("  between ranks: {}, dispatch {} and combine {}",
                              bytes_text(statistics.wire_bytes()), bytes_text(dispatch),
                              bytes_text(combine)));
  if (ranks < 2 || ranks > 8) return lines;
  std::string head = std::string{" from\\to"};
  for (int to = 0; to < ranks; ++to) head += fmt::format("{:>9}", fmt::format("rank {}", to));
  lines.push_back(marks.dim(head));
  for (int from = 0; from < ranks; ++from) {
    std::string line = marks.dim(fmt::format("  rank {}", from));
    for (int to = 0; to < ranks; ++to) {
      const std::string cell =
          fmt::format("{:>9}", bytes_text(moved.dispatch_bytes(from, to) + moved.combine_bytes(from, to)));
      line += from == to ? marks.dim(cell) : cell;
    }
    lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> time_shares(std::span<const share> phases, const style& marks) {
  constexpr const char* fills[] = {"█", "▓", "▒", "░", "▞", "▪", "·"};
  constexpr std::size_t kinds = std::size(fills);
  const std::vector<int> widths = share_columns(phases, summary_columns - 4);
  double total = 0;
  for (const share& s : phases) total += s.value;
  std::string stacked = "  ", legend;
  std::vector<std::string> legends;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    for (int c = 0; c < widths[i]; ++c) stacked += fills[i % kinds];
    const double percent = total > 0 ? 100.0 * phases[i].value / total : 0.0;
    const std::string entry = fmt::format("  {} {} {} ({:.0f} %)", fills[i % kinds], phases[i].name,
                                          seconds_text(phases[i].value), percent);
    if (columns(legend) + columns(entry) > summary_columns) {
      legends.push_back(legend);
      legend.clear();
    }
    legend += entry;
  }
  legends.push_back(legend);
  std::vector<std::string> lines{marks.accent(stacked)};
  lines.insert(lines.end(), legends.begin(), legends.end());
  return lines;
}

}  // namespace baton::cli
