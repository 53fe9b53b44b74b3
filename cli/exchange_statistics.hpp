#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "baton/expert_parallel.hpp"
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

  /// Counts one MoE layer's tokens.
  void count(int layer, std::span<const model::routed_tokens> ranks);

  int num_ranks() const { return num_ranks_; }
  int num_layers() const { return static_cast<int>(rows_.size()); }
  int num_experts() const { return config_.num_experts; }

  std::span<const std::uint64_t> rows_of_experts(int layer) const;
  std::vector<std::uint64_t> rows_of_experts() const;  // over all layers
  std::vector<std::uint64_t> rows_of_ranks() const;    // received, over all layers
  std::uint64_t rows() const;

  /// Bytes from rank to rank: messages of dispatch, and rows of combine on their way back.
  std::uint64_t dispatch_bytes(int from, int to) const {
    return rows_between(from, to) * dispatch_message_bytes();
  }
  std::uint64_t combine_bytes(int from, int to) const { return rows_between(to, from) * combine_row_bytes(); }
  std::uint64_t wire_bytes() const;   // both, between different ranks
  std::uint64_t local_bytes() const;  // both, within a rank

  /// payload, scales padded to 16 bytes, source info
  std::uint64_t dispatch_message_bytes() const;
  std::uint64_t combine_row_bytes() const { return 2 * static_cast<std::uint64_t>(config_.hidden); }

  std::uint64_t rounds = 0;
  exchange_times seconds;

 private:
  std::uint64_t rows_between(int from, int to) const {
    return links_[static_cast<std::size_t>(from) * static_cast<std::size_t>(num_ranks_) +
                  static_cast<std::size_t>(to)];
  }
  std::uint64_t bytes(bool within_a_rank) const;

  ep_config config_;
  int num_ranks_;
  std::vector<int> home_;                         // [experts]: the owner
  std::vector<std::vector<std::uint64_t>> rows_;  // [layers][experts]
  std::vector<std::uint64_t> links_;              // [from, to]: rows sent to be computed
};

}  // namespace baton::cli
