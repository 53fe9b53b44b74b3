#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "cli/bench/ep_traffic.hpp"
#include "cli/model/moe_backend.hpp"

namespace baton::cli {

/// Wall-clock seconds, summed over rounds.
struct exchange_times {
  double copies = 0;    // between the host's and the devices' memory
  double dispatch = 0;  // dispatch_async and dispatch_wait
  double experts = 0;
  double combine = 0;  // combine_async and combine_wait
  double total() const { return copies + dispatch + experts + combine; }
};

/// What went where. A row is one token on its way to one expert.
class exchange_statistics {
 public:
  exchange_statistics(const ep_config& config, int num_ranks, int num_layers);

  /// Counts one MoE layer's tokens, in rounds of as many as the communicator takes.
  void count(int layer, std::span<const model::routed_tokens> ranks);

  int num_ranks() const { return traffic_.num_ranks(); }
  int num_layers() const { return static_cast<int>(rows_.size()); }
  int num_experts() const { return config_.num_experts; }

  std::span<const std::uint64_t> rows_of_experts(int layer) const;
  std::vector<std::uint64_t> rows_of_experts() const;  // over all layers
  std::vector<std::uint64_t> rows_of_ranks() const;    // received, over all layers
  std::uint64_t rows() const;

  const ep_traffic& traffic() const { return traffic_; }
  std::uint64_t wire_bytes() const;   // of dispatch and combine, between different ranks
  std::uint64_t local_bytes() const;  // the same within a rank

  std::uint64_t rounds = 0;
  exchange_times seconds;

 private:
  std::uint64_t bytes(bool within_a_rank) const;

  ep_config config_;
  ep_traffic traffic_;
  std::vector<std::vector<std::uint64_t>> rows_;  // [layers][experts]
};

}  // namespace baton::cli
