#pragma once
// The MoE layers of a model, expert-parallel over ranks of this process.
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "baton/expert_mlp.hpp"
#include "baton/expert_parallel.hpp"
#include "baton/expert_placement.hpp"
#include "baton/world.hpp"
#include "cli/exchange_statistics.hpp"
#include "cli/model/checkpoint.hpp"
#include "cli/model/moe_backend.hpp"

namespace baton::cli {

struct exchange_options {
  int num_ranks = 1;
  device_kind device = device_kind::cpu;
  token_format format = token_format::bf16;
  token_format combine_format = token_format::bf16;
  arrival_policy arrival = arrival_policy::epoch;
  ep_layout layout = ep_layout::per_rank;
  ep_transfer transfer = ep_transfer::automatic;
  ep_rows rows = ep_rows::by_expert;
  int p2p_group_size = 0;
  ep_levels levels = ep_levels::one;
  int max_tokens_per_rank = 256;  // of one round; larger batches take several
  int num_replicas = 0;           // physical experts beyond the model's
  /// [layers][the model's experts], by which each layer's replicas are placed; empty: all are alike.
  std::vector<std::vector<std::int64_t>> past_loads;
};

/// Gives the experts first .. first + count - 1 of a layer; what checkpoint::experts does.
using expert_source = std::function<model::expert_matrices(int layer, int first, int count)>;
/// These experts of a layer, in this order; one may be there several times.
model::expert_matrices gathered(const expert_source& experts, int layer, std::span<const std::int32_t> ids);

/// Every rank of world::local, or the one of this process, with its share of the experts of some layers. One communicator a rank
/// serves all layers. Deterministic: the same input gives the same output, bit for bit, whatever ran before.
///
/// With replicas the communicator's experts, and those that are counted, are physical ones, of which each layer has a placement.
class exchange_moe : public model::moe_backend {
 public:
  /// Loads the experts of `layers` from the checkpoint, each rank's onto its device, as they are stored.
  /// @throws invalid_argument  what why_not says: more ranks than experts, top_k above the limit, ...
  /// @throws unsupported       no such device
  /// @throws out_of_memory     for weights, communicator or scratch, with the option that helps
  exchange_moe(const model::checkpoint& weights, std::span<const int> layers,
               const exchange_options& options);

  /// The same with experts from elsewhere; `config` says how many there are and their shape.
  exchange_moe(const model::model_config& config, const expert_source& experts, std::span<const int> layers,
               const exchange_options& options);

  /// The only rank here of a world whose others are in other processes, options.num_ranks in all. They run the same layers, each
  /// of tokens of its own, as many as a round takes.
  exchange_moe(const model::checkpoint& weights, std::span<const int> layers, const exchange_options& options,
               const world& rank);
  ~exchange_moe() override;

  /// @throws invalid_argument  a layer that was not loaded, not one entry for each rank, or more tokens than a round's where
  ///                           other ranks are elsewhere
  /// @throws stuck             a rank did not arrive; this object is of no further use
  void run(int layer, std::span<const model::routed_tokens> ranks,
           std::span<std::vector<float>> outputs) override;

  /// Null without replicas, and of a layer that was not loaded.
  const expert_placement* placement(int layer) const;
  /// The ids [tokens, top_k] of all of a rank's tokens as the exchange has them, in rounds of max_tokens_per_rank.
  std::vector<std::int32_t> physical(int layer, int rank, std::span<const std::int32_t> topk_idx) const;

  const exchange_statistics& statistics() const { return statistics_; }
  const ep_config& config() const { return config_; }
  weight_format weights_format()
      const;  // that the experts multiply by; of the first layer, and bf16 without one
  const std::vector<world>& ranks() const { return worlds_; }
  const world& rank(int index) const { return worlds_[static_cast<std::size_t>(index)]; }
  std::size_t device_bytes() const;  // all ranks: weights, communicator and staging

 private:
  struct rank_state;
  struct chunk;
  struct layer_replicas;

  exchange_moe(const model::model_config& config, const expert_source& experts, std::span<const int> layers,
               const exchange_options& options, std::vector<world> ranks);

  void place_replicas(std::span<const int> layers, const exchange_options& options);
  void load_experts(const expert_source& experts, std::span<const int> layers);
  model::expert_matrices experts_of(int rank, const expert_source& experts, int layer) const;
  void make_staging();
  void check_arguments(int layer, std::span<const model::routed_tokens> ranks, std::size_t outputs) const;
  void copy_in(std::span<const chunk> chunks, std::span<const model::routed_tokens> ranks);
  void dispatch(std::span<const chunk> chunks, const layer_replicas* replicas = nullptr);
  void count(int layer, std::span<const model::routed_tokens> ranks);
  void run_experts(int layer);
  void combine();
  void copy_out(std::span<const chunk> chunks, std::span<std::vector<float>> outputs);
  void synchronize() const;

  ep_config config_;
  std::vector<world> worlds_;
  std::vector<expert_parallel> communicators_;
  std::vector<rank_state> ranks_;
  std::vector<layer_replicas> replicas_;  // [layers] of the model; empty: none
  exchange_statistics statistics_;
};

}  // namespace baton::cli
