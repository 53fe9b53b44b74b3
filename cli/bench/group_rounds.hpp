#pragma once
// Rounds of a communicator whose ranks are processes: one rank of it, its inputs, what identity experts give, and times.
#include "baton/device_buffer.hpp"
#include "cli/bench/ep_inputs.hpp"
#include "cli/bench/round_timer.hpp"

namespace baton::cli {

/// Of format bf16: experts send rows back as they came.
class group_rounds {
 public:
  /// Collective, as what follows.
  group_rounds(const world& own, const ep_config& config, std::uint64_t seed);

  /// A round on poisoned outputs.
  void run();
  /// The same: this rank's values, compared.
  comparison verify();
  /// The outputs of the last round, whose bits do not depend on the p2p group, unless two levels add up groups of several ranks.
  std::vector<float> sums() const { return sums_.to_host(); }
  void enqueue(stream_ref stream);

 private:
  world own_;
  ep_config config_;
  rank_inputs in_;
  device_buffer<bfloat16> tokens_;
  device_buffer<std::int32_t> topk_idx_;
  device_buffer<float> topk_weights_, sums_;
  expert_parallel communicator_;
};

}  // namespace baton::cli
