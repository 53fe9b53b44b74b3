#include "forecast/routed.hpp"

#include <algorithm>

#include "base/math.hpp"
#include "kernels/ep/shape.hpp"

namespace baton::forecast {
namespace {

std::size_t size(int n) {
  return static_cast<std::size_t>(n);
}

/// The fewest tokens of a block, so that all blocks have room.
int tokens_of_block_for(const question& q, int places, std::size_t cells) {
  const std::size_t of_block = size(q.ranks) * size(places);
  const auto blocks = static_cast<int>(
      std::clamp<std::size_t>(cells / of_block, 1, static_cast<std::size_t>(std::max(1, q.tokens()))));
  return ceil_div(std::max(1, q.tokens()), blocks);
}

}  // namespace

routed::routed(const question& q, const choices_of_ranks& route, std::size_t cells)
    : num_places_{q.per_expert() ? q.config.num_experts : q.ranks},
      num_groups_{q.groups()},
      block_tokens_{tokens_of_block_for(q, num_places_, cells)},
      blocks_{ceil_div(std::max(1, q.tokens()), block_tokens_)},
      places_(size(q.ranks) * size(blocks_) * size(num_places_), 0),
      groups_(size(q.ranks) * size(blocks_) * size(num_groups_), 0),
      rows_(size(q.ranks), 0),
      tokens_(size(q.ranks), 0) {
  const ep::shape s{.num_experts = q.config.num_experts, .num_ranks = q.ranks};
  for (int r = 0; r <= q.ranks; ++r)
    first_place_.push_back(!q.per_expert() ? r : r == q.ranks ? s.num_experts : s.first_expert(r));
  for (int e = 0; e < s.num_experts; ++e) home_.push_back(s.home(e).rank);
  std::vector<std::int32_t> ids(size(q.tokens()) * size(q.config.top_k));
  for (int source = 0; source < q.ranks; ++source) {
    route(source, ids);
    count_rank(q, source, ids);
  }
}

void routed::count_rank(const question& q, int source, std::span<const std::int32_t> ids) {
  std::vector<int> rank_seen(size(q.ranks), -1), group_seen(size(num_groups_), -1);
  for (int t = 0; t < q.tokens(); ++t) {
    const int block = t / block_tokens_;
    for (const std::int32_t id : ids.subspan(size(t) * size(q.config.top_k), size(q.config.top_k))) {
      if (id < 0 || id >= q.config.num_experts) continue;
      const int rank = home_[size(id)], group = q.group_of(rank);
      ++rows_[size(rank)];
      if (q.per_expert()) ++places_[cell(source, block, num_places_, id)];
      if (rank_seen[size(rank)] != t) {
        ++tokens_[size(rank)];
        if (!q.per_expert()) ++places_[cell(source, block, num_places_, rank)];
      }
      if (group_seen[size(group)] != t) ++groups_[cell(source, block, num_groups_, group)];
      rank_seen[size(rank)] = group_seen[size(group)] = t;
    }
  }
}

std::uint32_t routed::to_rank(int source, int block, int rank) const {
  std::uint32_t messages = 0;
  for (int place = first_place(rank); place < end_place(rank); ++place)
    messages += to_place(source, block, place);
  return messages;
}

}  // namespace baton::forecast
