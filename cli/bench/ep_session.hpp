#pragma once
// A communicator of all ranks of this process with inputs, identity experts and outputs on their devices.
#include <span>
#include <string>
#include <vector>

#include "baton/device_buffer.hpp"
#include "cli/bench/ep_inputs.hpp"
#include "cli/bench/ep_replicas.hpp"
#include "cli/bench/ep_traffic.hpp"

namespace baton::cli {

/// The calls of a round, and the forms that a round can have: with identity experts, or as a layer with others, or these alone.
enum class ep_step { dispatch_async, dispatch_wait, combine_async, combine_wait, dispatch, combine, experts };
enum class ep_form { split, fused, split_layer, fused_layer, experts };
inline constexpr ep_step split_steps[] = {ep_step::dispatch_async, ep_step::dispatch_wait,
                                          ep_step::combine_async, ep_step::combine_wait};
inline constexpr ep_step fused_steps[] = {ep_step::dispatch, ep_step::combine};
inline constexpr ep_step split_layer_steps[] = {ep_step::dispatch_async, ep_step::dispatch_wait,
                                                ep_step::experts, ep_step::combine_async,
                                                ep_step::combine_wait};
inline constexpr ep_step fused_layer_steps[] = {ep_step::dispatch, ep_step::experts, ep_step::combine};
inline constexpr ep_step experts_alone[] = {ep_step::experts};
std::span<const ep_step> steps_of(ep_form form);
const char* name(ep_step step);

/// How the inputs of a round are held, and what there is beside what is needed.
struct ep_forms {
  bool quantised = false;      // tokens in the communicator's format, if it has scales
  bool wide_ids = false;       // int64
  bool shared_output = false;  // combine adds that of shared experts
};

/// What the rounds of a session are given.
struct ep_rounds {
  int num_sets = 4;  // of inputs, taken in turn
  std::uint64_t seed = 1;
  ep_forms forms;
  ep_routing routing = ep_routing::uniform;
  int num_replicas = 0;                        // physical experts beyond the logical ones that tokens choose
  const recorded_routing* recorded = nullptr;  // trace: not null

  /// Of a communicator with this configuration, whose experts are the physical ones.
  routing_case routing_of(const ep_config& config, int num_ranks) const {
    return {routing, config.num_experts - num_replicas, config.top_k, num_ranks, seed, recorded};
  }
};

/// Empty if the ranks can call the fused form: kernels of ranks that share a GPU could wait for each other for ever.
std::string why_not_fused(std::span<const world> worlds);

/// What a session's layers multiply by.
class ep_experts {
 public:
  virtual ~ep_experts() = default;
  /// The rank's experts on what it received, into output(rank).
  virtual void enqueue(int rank, const received_tokens& rows, stream_ref stream) = 0;
  virtual const bfloat16* output(int rank) const = 0;
};

class ep_session {
 public:
  /// Collective over `worlds`, all ranks of world::local. With replicas each set has a placement of its own, by past_loads.
  ep_session(std::span<const world> worlds, const ep_config& config, const ep_rounds& given);

  /// One step of one rank. Every rank's *_async step comes before any rank's matching *_wait step.
  void enqueue(ep_step step, int rank, int set, stream_ref stream);
  /// Overwrites the rank's outputs with NaNs.
  void poison(int rank, stream_ref stream);
  /// Rounds are layers from here on, unless their form has no such step; experts see what the last dispatch left. They must
  /// outlive the session. verify() is of identity experts.
  void use(ep_experts& experts) { experts_ = &experts; }
  /// A round on poisoned outputs, and these of a rank: [tokens, hidden].
  void run_round(int set, ep_form form);
  std::vector<bfloat16> output_of(int rank) const {
    return ranks_[static_cast<std::size_t>(rank)].output.to_host();
  }
  const rank_inputs& inputs_of(int rank, int set) const {
    return sets_[static_cast<std::size_t>(set)].host[static_cast<std::size_t>(rank)];
  }

  /// Two rounds on poisoned outputs: compares every fp32 sum of every rank, then every value as it is timed, rounded to bf16,
  /// with these. Leaves the expert outputs of `set` behind.
  comparison verify(int set, ep_form form);

  std::span<const world> worlds() const { return worlds_; }
  const ep_config& config() const { return config_; }
  int num_ranks() const { return static_cast<int>(worlds_.size()); }
  int num_sets() const { return static_cast<int>(sets_.size()); }
  const ep_traffic& traffic_of_set(int set) const { return sets_[static_cast<std::size_t>(set)].moved; }

 private:
  struct on_device {
    device_buffer<bfloat16> tokens;
    device_buffer<std::int32_t> topk_idx;
    device_buffer<float> topk_weights;
    device_buffer<std::int64_t> wide_ids;            // if any, in place of topk_idx
    device_buffer<std::byte> quantised, row_scales;  // if any, in place of tokens
    replicas_on_device replicas;
    device_buffer<bfloat16> shared_output;  // if any, given to combine
  };
  struct input_set {
    std::vector<rank_inputs> host;  // ids of physical experts
    std::vector<on_device> device;  // of logical ones
    ep_traffic moved;
  };
  struct rank_buffers {
    device_buffer<bfloat16> output;         // [tokens, hidden]
    device_buffer<float> sums;              // the same before it is rounded, where values are compared
    device_buffer<bfloat16> expert_output;  // unless what was received can be sent back
    received_tokens received;
  };

  input_set make_set(int set) const;
  void replicate(input_set& set, std::span<const std::int64_t> loads) const;
  on_device on_device_of(int rank, const rank_inputs& host) const;
  dispatch_input input_of(int rank, int set) const;
  /// Rows that lie as experts' outputs do: an expert that changes nothing has nothing to write.
  bool sends_back() const {
    return config_.format == token_format::bf16 && config_.rows == ep_rows::by_expert;
  }
  const bfloat16* expert_output_of(int rank) const;
  combine_input combine_input_of(int rank, int set) const;
  void fill_expert_output(int rank);
  void synchronize() const;

  std::span<const world> worlds_;
  ep_config config_;
  ep_rounds given_;
  std::vector<expert_parallel> communicators_;
  std::vector<rank_buffers> ranks_;
  std::vector<input_set> sets_;
  bool as_sums_ = false;           // combine gives fp32
  ep_experts* experts_ = nullptr;  // null: identity experts
};

}  // namespace baton::cli
