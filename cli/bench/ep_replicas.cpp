#include "cli/bench/ep_replicas.hpp"

namespace baton::cli {

replicas_on_device::replicas_on_device(const world& rank, const expert_placement& placement)
    : max_replicas_{placement.max_replicas} {
  const memory_use use{"tables of replicas", "use fewer --replicas"};
  physical_ = {rank, std::span<const std::int32_t>{placement.logical_to_physical}, use};
  counts_ = {rank, std::span<const std::int32_t>{placement.replica_counts}, use};
}

expert_map replicas_on_device::map() const {
  if (counts_.size() == 0) return {};
  return {.logical_to_physical = physical_.data(),
          .replica_counts = counts_.data(),
          .num_logical = static_cast<int>(counts_.size()),
          .max_replicas = max_replicas_};
}

std::vector<std::int32_t> physical_ids(const expert_placement& placement, std::span<const std::int32_t> ids,
                                       int top_k, int rank) {
  std::vector<std::int32_t> physical(ids.begin(), ids.end());
  const auto row = static_cast<std::size_t>(placement.max_replicas);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0) continue;
    const auto expert = static_cast<std::size_t>(ids[i]), token = i / static_cast<std::size_t>(top_k);
    const auto count = static_cast<std::size_t>(placement.replica_counts[expert]);
    physical[i] =
        placement.logical_to_physical[expert * row + (token + static_cast<std::size_t>(rank)) % count];
  }
  return physical;
}

}  // namespace baton::cli
