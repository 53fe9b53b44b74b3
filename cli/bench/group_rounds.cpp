#include "cli/bench/group_rounds.hpp"

namespace baton::cli {
namespace {

const memory_use inputs_of_groups{"inputs of the benchmark", "use fewer --tokens or a smaller --hidden"};

}  // namespace

group_rounds::group_rounds(const world& own, const ep_config& config, std::uint64_t seed)
    : own_{own},
      config_{config},
      in_{random_inputs(config, config.num_max_tokens_per_rank,
                        seed * 8191 + static_cast<std::uint64_t>(own.rank()))},
      tokens_{own, in_.tokens, inputs_of_groups},
      topk_idx_{own, in_.topk_idx, inputs_of_groups},
      topk_weights_{own, in_.topk_weights, inputs_of_groups},
      sums_{own, in_.tokens.size(), inputs_of_groups},
      communicator_{expert_parallel::create(own, config)} {}

void group_rounds::enqueue(stream_ref stream) {
  const received_tokens rows = communicator_.dispatch({.tokens = tokens_.data(),
                                                       .topk_idx = topk_idx_.data(),
                                                       .topk_weights = topk_weights_.data(),
                                                       .num_tokens = config_.num_max_tokens_per_rank},
                                                      stream);
  communicator_.combine({.expert_output = static_cast<const bfloat16*>(rows.tokens)}, sums_.data(), stream);
}

void group_rounds::run() {
  sums_.fill_async(0xff, {});
  enqueue({});
  own_.synchronize();
}

comparison group_rounds::verify() {
  run();
  return compare_identity(config_, {own_.rank(), own_.size()}, in_, sums());
}

}  // namespace baton::cli
