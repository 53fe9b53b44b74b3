#pragma once
// Greedy decoding of several sequences, spread over the ranks.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/model/moe_backend.hpp"
#include "cli/model/qwen3_moe.hpp"
#include "cli/prompts.hpp"

namespace baton::cli {

struct sequence {
  int rank = 0;
  std::vector<std::int32_t> prompt;
  int max_new = 0;
  std::vector<std::int32_t> generated;
};

/// Round-robin: prompt i goes to rank i modulo num_ranks. Where a continuation is expected, as many tokens as
/// it has, but no more than max_new; max_new 0: 64 where nothing is expected.
/// @throws invalid_argument  max_new negative, a prompt that is empty, or one that with its continuation
/// needs
///                           more positions than the model has (which prompt, how many, the limit)
std::vector<sequence> spread(const std::vector<prompt>& prompts, const model::model_config& config,
                             int num_ranks, int max_new);

/// Host memory that generating takes at least: keys and values of all positions, and what is held of each token while the
/// prompts are computed.
std::size_t bytes_of(const std::vector<sequence>& sequences, const model::model_config& config);

/// [ranks]: how many positions each of a rank's sequences comes to.
std::vector<std::vector<int>> positions_of_ranks(const std::vector<sequence>& sequences, int num_ranks);

/// The most tokens one rank brings to a step: its prompts, all at once.
int most_tokens_of_a_rank(const std::vector<sequence>& sequences, int num_ranks);

struct generation_times {
  int prompt_tokens = 0, new_tokens = 0;
  double prefill_s = 0;  // the first step; it also makes each sequence's first token
  double decode_s = 0;
  double total_s() const { return prefill_s + decode_s; }
};

/// Extends all sequences to their max_new. `on_token(i)` is called when sequence i has got a token.
generation_times generate_greedily(model::qwen3_moe& network, model::moe_backend& experts,
                                   std::vector<sequence>& sequences, int num_ranks,
                                   const std::function<void(std::size_t)>& on_token);

}  // namespace baton::cli
