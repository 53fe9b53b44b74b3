#pragma once
// A communicator of all ranks of this process with inputs, identity experts and outputs on their devices.
#include <span>
#include <vector>

#include "baton/device_buffer.hpp"
#include "cli/bench/ep_inputs.hpp"

namespace baton::cli {

enum class ep_step { dispatch_async, dispatch_wait, combine_async, combine_wait };
inline constexpr ep_step ep_steps[] = {ep_step::dispatch_async, ep_step::dispatch_wait,
                                       ep_step::combine_async, ep_step::combine_wait};
const char* name(ep_step step);

class ep_session {
 public:
  /// Collective over `worlds`, all ranks of world::local. Makes `num_sets` sets of inputs from `seed`.
  ep_session(std::span<const world> worlds, const ep_config& config, int num_sets, std::uint64_t seed);

  /// One step of one rank. Every rank's *_async step comes before any rank's matching *_wait step.
  void enqueue(ep_step step, int rank, int set, stream_ref stream);
  /// Overwrites the rank's output with NaNs.
  void poison(int rank, stream_ref stream);
  /// One round on poisoned outputs; compares every value of every rank. Leaves the expert outputs of `set` behind.
  comparison verify(int set);

  std::span<const world> worlds() const { return worlds_; }
  const ep_config& config() const { return config_; }
  int num_ranks() const { return static_cast<int>(worlds_.size()); }
  int num_sets() const { return static_cast<int>(sets_.size()); }
  const traffic& traffic_of_set(int set) const { return sets_[static_cast<std::size_t>(set)].moved; }

 private:
  struct on_device {
    device_buffer<bfloat16> tokens;
    device_buffer<std::int32_t> topk_idx;
    device_buffer<float> topk_weights;
  };
  struct input_set {
    std::vector<rank_inputs> host;
    std::vector<on_device> device;
    traffic moved;
  };
  struct rank_buffers {
    device_buffer<float> output;            // [tokens, hidden]
    device_buffer<bfloat16> expert_output;  // blockwise_fp8 only: bf16 sends back what it received
    received_tokens received;
  };

  input_set make_set(std::uint64_t seed) const;
  void fill_expert_output(int rank);
  void synchronize() const;

  std::span<const world> worlds_;
  ep_config config_;
  std::vector<expert_parallel> communicators_;
  std::vector<rank_buffers> ranks_;
  std::vector<input_set> sets_;
};

}  // namespace baton::cli
