#pragma once
// Rounds whose ids are of logical experts: what the map makes of them, worked out on the host, and the tables on the device.
#include <random>

#include "baton/expert_placement.hpp"
#include "tests/support/exchange_cases.hpp"

namespace baton::test {

/// One rank's tables on its device.
class device_map {
 public:
  device_map(const world& rank, const replica_tables& tables)
      : host_{tables},
        physical_{rank, std::span<const std::int32_t>{host_.logical_to_physical}},
        counts_{rank, std::span<const std::int32_t>{host_.replica_counts}} {}

  expert_map map() const {
    const auto logical = static_cast<int>(host_.replica_counts.size());
    return {physical_.data(), counts_.data(), logical,
            static_cast<int>(host_.logical_to_physical.size()) / logical};
  }
  /// In stream order.
  void become(const replica_tables& tables, stream_ref stream = {}) {
    host_ = tables;
    physical_.copy_from_async(host_.logical_to_physical, stream);
    counts_.copy_from_async(host_.replica_counts, stream);
  }
  const replica_tables& tables() const { return host_; }

 private:
  replica_tables host_;
  device_buffer<std::int32_t> physical_, counts_;
};

inline replica_tables tables_of(const expert_placement& p) {
  return {p.logical_to_physical, p.replica_counts};
}

/// By loads of the logical experts that `seed` draws.
inline expert_placement drawn_placement(int logical, int physical, int num_ranks, std::uint64_t seed) {
  std::mt19937_64 random{seed};
  std::vector<std::int64_t> loads;
  for (int e = 0; e < logical; ++e) loads.push_back(static_cast<std::int64_t>(random() % 100));
  return place_experts(loads, num_ranks, physical);
}

/// Inputs of a case whose config counts physical experts, with ids of logical ones.
inline std::vector<rank_inputs> draw_logical_inputs(exchange_case c, int logical, std::uint64_t seed) {
  c.config.num_experts = logical;
  return draw_inputs(c, seed);
}

/// The physical expert of a logical one, by the rule that expert_map documents; -1 where there is none.
inline std::int32_t physical_of(const replica_tables& t, std::int32_t logical, int token, int rank) {
  const auto experts = static_cast<std::int32_t>(t.replica_counts.size());
  if (logical < 0 || logical >= experts) return -1;
  const auto e = static_cast<std::size_t>(logical),
             wide = t.logical_to_physical.size() / t.replica_counts.size();
  const auto count = static_cast<std::size_t>(t.replica_counts[e]);
  if (count == 0) return -1;
  return t.logical_to_physical[e * wide + static_cast<std::size_t>(token + rank) % count];
}

/// Inputs of logical experts as the ranks' tables turn them into physical ones.
inline std::vector<rank_inputs> with_replicas(std::vector<rank_inputs> inputs, int top_k,
                                              const std::vector<replica_tables>& tables) {
  for (std::size_t r = 0; r < inputs.size(); ++r)
    for (std::size_t i = 0; i < inputs[r].topk_idx.size(); ++i)
      inputs[r].topk_idx[i] =
          physical_of(tables[r], inputs[r].topk_idx[i], static_cast<int>(i) / top_k, static_cast<int>(r));
  return inputs;
}

/// One round of all ranks from one thread, given `logical` inputs and compared with what their physical experts must give.
inline std::string run_replicated_round(const exchange_case& c, const std::vector<rank_inputs>& logical,
                                        const std::vector<device_map>& maps,
                                        std::vector<exchange_rank>& ranks, calls how) {
  std::vector<replica_tables> tables;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    ranks[r].options.replicas = maps[r].map();
    ranks[r].options.weights_of = c.weights_of;
    tables.push_back(maps[r].tables());
  }
  const auto physical = with_replicas(logical, c.config.top_k, tables);
  expected_round expected{c, physical};
  return run_round(expected, ranks, how, &logical);
}

/// Ranks each by themselves, given the same tokens: what differs from the parts of the sums that each must make of its own
/// experts, or says that a choice was no rank's, or two ranks'. `c` is of one rank with all experts and distinct ids.
inline std::string run_ranks_alone(const exchange_case& c, int num_ranks, calls how, device_kind device) {
  const std::vector<rank_inputs> all = draw_inputs(c, 5);
  std::int64_t rows = 0;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const expert_range own = experts_of_rank(c.config.num_experts, num_ranks, rank);
    exchange_case part = c;
    part.config.num_experts = own.count;
    for (int e = 0; e < own.count; ++e) part.weights_of.push_back(own.first + e);
    const auto worlds = world::local(1, device);
    std::vector<device_map> maps;
    maps.emplace_back(worlds[0], own_experts(c.config.num_experts, num_ranks, rank));
    device_buffer<std::int64_t> load{worlds[0],
                                     std::vector<std::int64_t>(static_cast<std::size_t>(own.count), 0)};
    auto ranks = make_ranks(worlds, part.config);
    ranks[0].options.expert_load = load.data();
    const std::string differs = run_replicated_round(part, all, maps, ranks, how);
    if (!differs.empty()) return "rank " + std::to_string(rank) + ": " + differs;
    ranks[0].ep().check();
    for (const std::int64_t of_expert : load.to_host()) rows += of_expert;
  }
  const auto choices = static_cast<std::int64_t>(all[0].topk_idx.size());
  return rows == choices ? "" : std::to_string(rows) + " rows of " + std::to_string(choices) + " choices";
}

}  // namespace baton::test
