#include "cli/exchange_statistics.hpp"

#include <algorithm>
#include <numeric>

namespace baton::cli {

exchange_statistics::exchange_statistics(const ep_config& config, int num_ranks, int num_layers)
    : config_{config},
      traffic_{config, num_ranks},
      rows_(static_cast<std::size_t>(num_layers),
            std::vector<std::uint64_t>(static_cast<std::size_t>(config.num_experts), 0)) {}

void exchange_statistics::count(int layer, std::span<const model::routed_tokens> ranks) {
  std::vector<std::uint64_t>& rows = rows_.at(static_cast<std::size_t>(layer));
  std::size_t most = 0;
  for (const model::routed_tokens& rank : ranks) {
    most = std::max(most, rank.topk_idx.size());
    for (const std::int32_t id : rank.topk_idx)
      if (id >= 0 && id < config_.num_experts) ++rows[static_cast<std::size_t>(id)];
  }
  const auto of_round =
      static_cast<std::size_t>(config_.num_max_tokens_per_rank) * static_cast<std::size_t>(config_.top_k);
  for (std::size_t first = 0; first < most; first += of_round) {
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const std::span<const std::int32_t> ids{ranks[r].topk_idx};
      const std::size_t begin = std::min(first, ids.size());
      traffic_.count(static_cast<int>(r), ids.subspan(begin, std::min(of_round, ids.size() - begin)));
    }
  }
}

std::span<const std::uint64_t> exchange_statistics::rows_of_experts(int layer) const {
  return rows_.at(static_cast<std::size_t>(layer));
}

std::vector<std::uint64_t> exchange_statistics::rows_of_experts() const {
  std::vector<std::uint64_t> sum(static_cast<std::size_t>(config_.num_experts), 0);
  for (const auto& layer : rows_) {
    for (std::size_t e = 0; e < sum.size(); ++e) sum[e] += layer[e];
  }
  return sum;
}

std::vector<std::uint64_t> exchange_statistics::rows_of_ranks() const {
  std::vector<std::uint64_t> sum(static_cast<std::size_t>(num_ranks()), 0);
  for (int from = 0; from < num_ranks(); ++from)
    for (int to = 0; to < num_ranks(); ++to)
      sum[static_cast<std::size_t>(to)] += traffic_.rows_between(from, to);
  return sum;
}

std::uint64_t exchange_statistics::rows() const {
  const std::vector<std::uint64_t> of_ranks = rows_of_ranks();
  return std::accumulate(of_ranks.begin(), of_ranks.end(), std::uint64_t{0});
}

std::uint64_t exchange_statistics::bytes(bool within_a_rank) const {
  std::uint64_t sum = 0;
  for (int from = 0; from < num_ranks(); ++from) {
    for (int to = 0; to < num_ranks(); ++to) {
      if ((from == to) == within_a_rank)
        sum += traffic_.dispatch_bytes(from, to) + traffic_.combine_bytes(from, to);
    }
  }
  return sum;
}

std::uint64_t exchange_statistics::wire_bytes() const {
  return bytes(false);
}
std::uint64_t exchange_statistics::local_bytes() const {
  return bytes(true);
}

}  // namespace baton::cli
