#pragma once
// Which experts the tokens of a benchmark choose.
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cli/bench/random_bits.hpp"

namespace baton::cli {

/// uniform: every expert as often as any other. zipf: the n-th most popular one with a probability in proportion to 1 / n; which
/// it is, the seed says. trace: as a model's routers chose. all_to_one: only experts that rank 0 has before any are replicated.
/// A token's experts are distinct.
enum class ep_routing { uniform, zipf, trace, all_to_one };
const char* name(ep_routing routing);

/// What a model's routers chose for consecutive tokens of a text.
struct recorded_routing {
  struct layer {
    std::vector<std::int32_t> ids;  // [tokens, top_k], distinct ones of a token
    std::vector<float> weights;     // [tokens, top_k], positive, sum to 1
  };
  int num_experts = 0, top_k = 0;
  std::vector<layer> layers;
};
/// How many tokens of a recorded layer chose each expert.
std::vector<std::int64_t> loads_of(const recorded_routing& recorded, std::size_t layer);

struct routing_case {
  ep_routing kind = ep_routing::uniform;
  int num_experts = 0, top_k = 0, num_ranks = 1;  // logical experts
  std::uint64_t seed = 1;                         // of what all ranks have in common
  const recorded_routing* recorded = nullptr;     // trace: not null
};
/// Empty, or why there is no such routing, beginning with the option that says so.
std::string why_not(const routing_case& c);

/// Gives one token after the other its ids and weights, which are positive and sum to 1.
using token_router =
    std::function<void(random_bits& random, std::span<std::int32_t> ids, std::span<float> weights)>;
/// Of one rank in one set of inputs. trace: set s is of layer s modulo layers; a rank has consecutive tokens, from a place that
/// `random` draws, and behind the last one comes the first.
token_router router_of(const routing_case& c, int set);

/// How often each expert is chosen by tokens like those of a set, but not by these: what whoever places experts has seen of the
/// past. trace: by all tokens of the layer.
std::vector<std::int64_t> past_loads(const routing_case& c, int set);

}  // namespace baton::cli
