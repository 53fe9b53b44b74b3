#include "cli/exchange_statistics.hpp"

#include <numeric>

#include "base/math.hpp"

namespace baton::cli {

exchange_statistics::exchange_statistics(const ep_config& config, int num_ranks, int num_layers)
    : config_{config},
      num_ranks_{num_ranks},
      rows_(static_cast<std::size_t>(num_layers),
            std::vector<std::uint64_t>(static_cast<std::size_t>(config.num_experts), 0)),
      links_(static_cast<std::size_t>(num_ranks) * static_cast<std::size_t>(num_ranks), 0) {
  for (int rank = 0; rank < num_ranks; ++rank) {
    const expert_range mine = experts_of_rank(config.num_experts, num_ranks, rank);
    home_.insert(home_.end(), static_cast<std::size_t>(mine.count), rank);
  }
}

void exchange_statistics::count(int layer, std::span<const model::routed_tokens> ranks) {
  std::vector<std::uint64_t>& rows = rows_.at(static_cast<std::size_t>(layer));
  for (std::size_t from = 0; from < ranks.size(); ++from) {
    for (const std::int32_t id : ranks[from].topk_idx) {
      if (id < 0 || id >= config_.num_experts) continue;
      const auto expert = static_cast<std::size_t>(id);
      ++rows[expert];
      ++links_[from * ranks.size() + static_cast<std::size_t>(home_[expert])];
    }
  }
}

std::span<const std::uint64_t> exchange_statistics::rows_of_experts(int layer) const {
  return rows_.at(static_cast<std::size_t>(layer));
}

std::vector<std::uint64_t> exchange_statistics::rows_of_experts() const {
  std::vector<std::uint64_t> sum(home_.size(), 0);
  for (const auto& layer : rows_) {
    for (std::size_t e = 0; e < sum.size(); ++e) sum[e] += layer[e];
  }
  return sum;
}

std::vector<std::uint64_t> exchange_statistics::rows_of_ranks() const {
  std::vector<std::uint64_t> sum(static_cast<std::size_t>(num_ranks_), 0);
  const std::vector<std::uint64_t> experts = rows_of_experts();
  for (std::size_t e = 0; e < experts.size(); ++e) sum[static_cast<std::size_t>(home_[e])] += experts[e];
  return sum;
}

std::uint64_t exchange_statistics::rows() const {
  return std::accumulate(links_.begin(), links_.end(), std::uint64_t{0});
}

std::uint64_t exchange_statistics::dispatch_message_bytes() const {
  const auto hidden = static_cast<std::uint64_t>(config_.hidden);
  constexpr std::uint64_t source_bytes = sizeof(source_info);
  if (config_.format == token_format::bf16) return 2 * hidden + source_bytes;
  return hidden + align_up(hidden / 128 * sizeof(float), std::uint64_t{16}) + source_bytes;
}

std::uint64_t exchange_statistics::bytes(bool within_a_rank) const {
  std::uint64_t sum = 0;
  for (int from = 0; from < num_ranks_; ++from) {
    for (int to = 0; to < num_ranks_; ++to) {
      if ((from == to) == within_a_rank) sum += dispatch_bytes(from, to) + combine_bytes(from, to);
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
