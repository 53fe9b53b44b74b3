#pragma once
// Replicas of experts on a rank's device, and what they make of ids on the host.
#include <cstdint>
#include <span>
#include <vector>

#include "baton/device_buffer.hpp"
#include "baton/dispatch_input.hpp"
#include "baton/expert_placement.hpp"

namespace baton::cli {

/// A placement's tables on one rank's device.
class replicas_on_device {
 public:
  replicas_on_device() = default;  // no map
  replicas_on_device(const world& rank, const expert_placement& placement);
  expert_map map() const;

 private:
  device_buffer<std::int32_t> physical_, counts_;
  int max_replicas_ = 0;
};

/// The physical experts of one rank's ids [tokens, top_k], as expert_map documents; -1 stays -1.
std::vector<std::int32_t> physical_ids(const expert_placement& placement, std::span<const std::int32_t> ids,
                                       int top_k, int rank);

}  // namespace baton::cli
