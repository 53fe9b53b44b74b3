#pragma once
#include <filesystem>

#include "cli/bench/ep_routing.hpp"

namespace baton::cli {

/// What a model's routers chose for consecutive tokens, of each layer L of the model: `layers.L.topk_ids` [tokens, top_k], of any
/// integer type, and `layers.L.topk_weights` of the same shape, F16, BF16 or F32, which are scaled to sum to 1.
/// data/tiny-moe/routing.safetensors is one. Experts are as many as the largest id says, in all layers together.
/// @throws bad_file  no such tensors, layers of different top_k, an id below 0 or past 1023, one twice of a token, a weight
///                   that is not positive and finite
recorded_routing read_recorded_routing(const std::filesystem::path& file);

}  // namespace baton::cli
